package goroutines_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/gopool"
	"github.com/orch-dev/orch/internal/goroutines"
)

func TestHeld(t *testing.T) { //nolint:paralleltest // it counts goroutines
	const idle = 8
	p := gopool.New(idle)
	defer p.Stop()
	begin := make(chan struct{})
	for range idle {
		p.Go(func() { <-begin })
	}
	close(begin)
	kept := func() int { return runtime.NumGoroutine() - goroutines.Held() }
	until(func() bool { return kept() == idle })
	assert.Equal(t, idle, kept())

	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	assert.Equal(t, idle, kept(), "others are held")
	assert.Contains(t, goroutines.Stacks(), "TestHeld")
}

// until waits for something, without a goroutine of its own.
func until(done func() bool) {
	for end := time.Now().Add(time.Minute); !done() && time.Now().Before(end); {
		runtime.Gosched()
	}
}
