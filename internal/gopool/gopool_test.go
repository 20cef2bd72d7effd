package gopool_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/internal/gopool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// No job waits for another one: all of them meet.
func TestJobsRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	const jobs = 100
	c := gopool.New(2)
	defer c.Stop()
	var met, done sync.WaitGroup
	met.Add(jobs)
	for range jobs {
		done.Add(1)
		c.Go(func() { met.Done(); met.Wait(); done.Done() })
	}
	done.Wait()
}

func TestEveryJobRunsOnce(t *testing.T) {
	t.Parallel()
	c := gopool.New(4)
	var ran atomic.Int64
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 1000 {
				done.Add(1)
				c.Go(func() { ran.Add(1); done.Done() })
			}
		})
	}
	done.Wait()
	c.Stop()
	assert.Equal(t, int64(8000), ran.Load())
}
