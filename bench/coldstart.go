package bench

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/api"
)

// coldStarts measures the time from launching `orch serve` until its first task is done, with a new data directory and with
// the data directory of the previous run.
func coldStarts(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	text, err := helloPlan()
	if err != nil {
		return nil, err
	}
	var fresh, existing []float64
	for range l.Runs {
		dir, remove, err := l.fresh("cold")
		if err != nil {
			return nil, err
		}
		defer remove()
		for _, runs := range []*[]float64{&fresh, &existing} {
			took, _, err := l.coldStart(ctx, dir, durability, text)
			if err != nil {
				return nil, err
			}
			*runs = append(*runs, took)
		}
	}
	return []Row{
		figure("cold-start-new", "launch → first task done, new data directory", "ms", fresh),
		figure("cold-start-existing", "launch → first task done, existing data directory", "ms", existing),
	}, nil
}

// coldStart returns the time from launching `orch serve` until its first task is done, in milliseconds, and the CPU time of the server
// until then. args are further arguments.
func (c Config) coldStart(ctx context.Context, dir, durability string, text []byte, args ...string) (took float64, cpu time.Duration, err error) {
	began := time.Now()
	server, err := c.serve(ctx, dir, durability, args...)
	if err != nil {
		return 0, 0, err
	}
	defer server.stop()
	remote, hangUp, err := dial(ctx, dir)
	if err != nil {
		return 0, 0, err
	}
	defer hangUp()
	task, err := remote.Submit(ctx, api.SubmitRequest{Plan: text})
	if err == nil {
		err = await(ctx, remote, task)
	}
	return millis(time.Since(began)), cpuOf(server.pid()), err
}

// serve launches `orch serve` with its data below dir.
func (c Config) serve(ctx context.Context, dir, durability string, args ...string) (*child, error) {
	always := []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--root", dir, "--durability", durability, "-o", "json"}
	return c.launch(ctx, "server", append(always, args...)...)
}

// helloPlan returns a plan that writes a line to the log.
func helloPlan() (json.RawMessage, error) {
	return planOf("steps:\n  - {id: say, tool: LOG_WRITE, with: {level: INFO, message: hello}}\n")
}
