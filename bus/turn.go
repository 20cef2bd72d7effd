package bus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// turnFile is the file that a node locks while it waits for a data directory.
const turnFile = "NEXT"

// maxHolder is the maximum number of bytes that are read of a lock file.
const maxHolder = 256

// Holder is the process that holds the lock of a data directory.
type Holder struct {
	PID int
	// Guest is the name of a command, such as "orch submit", that releases the directory when a node wants it. It is
	// empty for a node.
	Guest string
}

// String describes the process, such as "orch submit (process 42)".
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "process unknown"
	case h.Guest == "":
		return fmt.Sprintf("process %d", h.PID)
	default:
		return fmt.Sprintf("%s (process %d)", h.Guest, h.PID)
	}
}

// text returns the content of the lock file.
func (h Holder) text() []byte {
	text := strconv.Itoa(h.PID) + "\n"
	if h.Guest != "" {
		text += h.Guest + "\n"
	}
	return []byte(text)
}

// parseHolder decodes the content of a lock file. It returns the zero Holder if the content is invalid.
func parseHolder(text []byte) Holder {
	pid, rest, _ := strings.Cut(string(text), "\n")
	guest, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return Holder{}
	}
	return Holder{PID: n, Guest: guest}
}

// ReadHolder returns the current or last holder of a data directory, the zero Holder if it is unknown.
func ReadHolder(dir string) Holder {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	return holderOf(f)
}

func holderOf(lock *os.File) Holder {
	buf := make([]byte, maxHolder)
	n, _ := lock.ReadAt(buf, 0) // an unreadable file yields the zero Holder
	return parseHolder(buf[:n])
}

// Turn is the right to be the next node on a data directory: the lock of turnFile. The kernel releases the lock when the
// process ends.
type Turn struct{ file *os.File }

const (
	// ClaimTurn tries turnTries times to lock the file, with a pause of turnPause, because Wanted also locks it for a moment.
	turnTries = 20
	turnPause = 10 * time.Millisecond
)

// ClaimTurn makes Wanted return true, so that a command that holds the data directory releases it. CONFLICT if another
// node already waits for the directory.
func ClaimTurn(ctx context.Context, dir string) (*Turn, error) {
	path := filepath.Join(dir, turnFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, writeFault(path, err)
	}
	for range turnTries {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || pause.For(ctx, turnPause) != nil {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fault.New(fault.Conflict, "another node waits for the data directory %s already", dir).
			WithReason(DataDirInUse).WithField("data_dir").WithHint("use that node, or give another data directory")
	case err != nil:
		err = writeFault(path, err)
	default:
		return &Turn{f}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// Release unlocks the file, so that another node can claim the turn.
func (t *Turn) Release() error { return unlock(t.file) }

// Wanted reports whether a node waits for a data directory.
func Wanted(dir string) bool {
	f, err := os.Open(filepath.Join(dir, turnFile))
	if err != nil {
		return false // usually because no node has ever waited
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing the file unlocks it too
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}
