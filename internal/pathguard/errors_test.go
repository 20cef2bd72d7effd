package pathguard

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// Every error of the kernel that a user can cause has a code, and the original stays inside for the log.
func TestDescribe(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]struct {
		code   fault.Code
		reason string
	}{
		syscall.ENOENT:           {fault.NotFound, ""},
		syscall.EACCES:           {fault.Forbidden, "PERMISSION_DENIED"},
		syscall.EPERM:            {fault.Forbidden, "PERMISSION_DENIED"},
		syscall.EROFS:            {fault.Forbidden, fault.ReadOnlyFileSystem},
		syscall.EEXIST:           {fault.Conflict, ""},
		syscall.ENOTEMPTY:        {fault.Conflict, ""},
		syscall.EBUSY:            {fault.Conflict, ""},
		syscall.ETXTBSY:          {fault.Conflict, ""},
		syscall.ENOSPC:           {fault.DiskFull, ""},
		syscall.EDQUOT:           {fault.DiskFull, ""},
		syscall.EISDIR:           {fault.InvalidFormat, "INVALID_PATH"},
		syscall.ENOTDIR:          {fault.InvalidFormat, "INVALID_PATH"},
		syscall.ELOOP:            {fault.InvalidFormat, "INVALID_PATH"},
		syscall.ENAMETOOLONG:     {fault.InvalidFormat, "INVALID_PATH"},
		syscall.ENXIO:            {fault.InvalidFormat, "INVALID_PATH"},
		syscall.EIO:              {fault.Internal, ""},
		context.Canceled:         {fault.Cancelled, ""},
		context.DeadlineExceeded: {fault.Timeout, ""},
		errors.New("else"):       {fault.Internal, ""},
	} {
		err := describe("/root/f", &fs.PathError{Op: "open", Path: "f", Err: cause})
		var e *fault.Error
		require.ErrorAs(t, err, &e, cause)
		assert.Equal(t, want.code, e.Code, cause)
		assert.Equal(t, want.reason, e.Reason, cause)
	}
	require.NoError(t, describe("/root/f", nil))
	coded := fault.New(fault.Gone, "x")
	assert.Same(t, coded, describe("/root/f", coded))
}
