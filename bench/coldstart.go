package bench

import (
	"context"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/api"
)

// coldStarts measures the time from launching `orch serve` until its first task is done, with a new data directory and with
// the data directory of the previous run.
func coldStarts(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	text, err := planOf("steps:\n  - {id: say, tool: LOG_WRITE, with: {level: INFO, message: hello}}\n")
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
			took, err := l.coldStart(ctx, dir, durability, text)
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

func (c Config) coldStart(ctx context.Context, dir, durability string, text []byte) (float64, error) {
	began := time.Now()
	server, err := c.launch(ctx, "server", "serve", "--data-dir", filepath.Join(dir, "data"), "--root", dir, "--durability", durability, "-o", "json")
	if err != nil {
		return 0, err
	}
	defer server.stop()
	remote, hangUp, err := dial(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	task, err := remote.Submit(ctx, api.SubmitRequest{Plan: text})
	if err == nil {
		err = await(ctx, remote, task)
	}
	return millis(time.Since(began)), err
}
