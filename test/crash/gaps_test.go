package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/crash"
)

const (
	// gapFrom is the minimum pause that a process reports: a heartbeat of a worker is then late. A pause of a lease or
	// more does not mean that the machine is overloaded: the process was stopped.
	gapFrom = lease / 4
	// gapTick is how often it checks.
	gapTick = gapFrom / 10
)

func gapsPath(dir string) string { return filepath.Join(dir, "gaps") }

// reportGaps writes down when this process does not go on, as on a machine that has more to do than it can.
func reportGaps(ctx context.Context, dir string) (err error) {
	f, err := os.OpenFile(gapsPath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tick, gaps := time.NewTicker(gapTick), json.NewEncoder(f)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) > gapFrom {
			if err := gaps.Encode(crash.Absence{Who: crash.Process(os.Getpid()), From: last, To: now}); err != nil {
				return err
			}
		}
		last = now
	}
}

// readGaps returns when processes did not go on.
func readGaps(t *testing.T, dir string) (gaps []crash.Absence) {
	t.Helper()
	f, err := os.Open(gapsPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for d := json.NewDecoder(f); d.More(); {
		var a crash.Absence
		if d.Decode(&a) != nil {
			break // the worker died in the line
		}
		if gaps = append(gaps, a); a.To.Sub(a.From) < lease {
			gaps = append(gaps, crash.Absence{Who: crash.TheMachine, From: a.From, To: a.To})
		}
	}
	return gaps
}
