package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
)

// sleepers measures 1,000 tasks that sleep for 1 s with a durable timer, from the first submission until all are done,
// in three processes.
func sleepers(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	text, err := planOf("steps:\n  - {id: nap, wait: {for: 1s}}\n")
	if err != nil {
		return nil, err
	}
	tasks := l.scaled(1000)
	runs, err := repeat(l.Config, func() (float64, error) {
		dir, remove, err := l.fresh("sleepers")
		if err != nil {
			return 0, err
		}
		defer remove()
		s, err := orchProcesses(ctx, l.Config, dir, durability)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		remote, hangUp, err := dial(ctx, dir)
		if err != nil {
			return 0, err
		}
		defer hangUp()
		return sleepAll(ctx, remote, text, tasks)
	})
	return []Row{figure("sleepers", fmt.Sprintf("%d tasks that sleep 1 s, first submit → all done", tasks), "s", runs)}, err
}

func sleepAll(ctx context.Context, owner api.API, text json.RawMessage, tasks int) (float64, error) {
	var group sync.WaitGroup
	var failure atomic.Pointer[error]
	began := time.Now()
	for range tasks {
		group.Go(func() {
			task, err := owner.Submit(ctx, api.SubmitRequest{Plan: text})
			if err == nil {
				err = await(ctx, owner, task)
			}
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return time.Since(began).Seconds(), nil
}
