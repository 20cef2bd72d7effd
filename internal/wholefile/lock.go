package wholefile

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Lock acquires an exclusive lock on a file, against other processes and goroutines. The lock is held until unlock is
// called. Lock creates the file if necessary; its directory must exist. If ctx ends while it waits, it returns the
// error of ctx.
func Lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const between = 20 * time.Millisecond
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() {
				_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // a child that is just starting may have a copy of f
				_ = f.Close()                                   // nothing was written
			}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
