// Package gopool runs many short jobs in reused goroutines. A new goroutine starts with a small stack, which is copied
// several times while, for example, JSON is decoded. A reused goroutine already has a large stack.
package gopool

import "sync"

// Pool runs jobs, each in its own goroutine, without a limit on their number. The zero value is not usable; see New.
type Pool struct {
	jobs chan func()
	idle chan struct{}
	stop chan struct{}
	once sync.Once
}

// New returns a pool that keeps up to idle goroutines for later jobs.
func New(idle int) *Pool {
	return &Pool{jobs: make(chan func()), idle: make(chan struct{}, idle), stop: make(chan struct{})}
}

// Go starts a job. It never blocks.
func (c *Pool) Go(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.work(job)
	}
}

// Stop ends idle goroutines immediately, and busy goroutines after their jobs. It is idempotent.
func (c *Pool) Stop() { c.once.Do(func() { close(c.stop) }) }

func (c *Pool) work(job func()) {
	for job != nil {
		job()
		job = c.next()
	}
}

// next waits for the next job. It returns nil when the goroutine must end.
func (c *Pool) next() func() {
	select {
	case c.idle <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-c.idle }()
	select {
	case job := <-c.jobs:
		return job
	case <-c.stop:
		return nil
	}
}
