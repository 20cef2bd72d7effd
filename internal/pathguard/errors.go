package pathguard

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidFormat, format, args...).WithReason("INVALID_PATH")
}

func (r *Root) outside() error {
	return fault.New(fault.OutsideRoot, "the path leads outside the root").
		WithReason("OutsideRoot").WithHint("the root is %s", r.name)
}

// fail converts the error of an operation on rel to a coded error. It returns nil for nil.
func (r *Root) fail(rel string, err error) error {
	switch {
	case err == nil:
		return nil // without the cost of a message
	case errors.Is(err, r.escape):
		return r.outside()
	}
	return describe(r.Abs(rel), err)
}

// describe converts an error of the operating system to a coded error with a message about path. It returns nil for
// nil.
func describe(path string, err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, err, path+" does not exist")
	case errors.Is(err, syscall.EROFS):
		return fault.Wrap(fault.Forbidden, err, "the file system of "+path+" is mounted read-only").
			WithReason(fault.ReadOnlyFileSystem).WithHint("mount it writable, or choose another --root")
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Forbidden, err, "the operating system denies the access to "+path).
			WithReason("PERMISSION_DENIED")
	case errors.Is(err, fs.ErrExist): // covers ENOTEMPTY
		return fault.Wrap(fault.Conflict, err, path+" exists already, or is not empty")
	case errors.Is(err, syscall.ETXTBSY), errors.Is(err, syscall.EBUSY):
		return fault.Wrap(fault.Conflict, err, path+" is in use")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.DiskFull, err, "there is no space left for "+path)
	case errors.Is(err, syscall.EISDIR):
		return fault.Wrap(fault.InvalidFormat, err, path+" is a directory").WithReason("INVALID_PATH")
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.InvalidFormat, err, path+", or a part of it, is not a directory").WithReason("INVALID_PATH")
	case errors.Is(err, syscall.ELOOP):
		return fault.Wrap(fault.InvalidFormat, err, path+" has too many symbolic links").WithReason("INVALID_PATH")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Wrap(fault.InvalidFormat, err, "a name of the path is too long").WithReason("INVALID_PATH")
	case errors.Is(err, syscall.ENXIO):
		return irregular(path)
	default:
		return fault.Wrap(fault.Internal, err, "the file system failed at "+path)
	}
}

func irregular(path string) *fault.Error { return invalid("%s is not a regular file", path) }
