// Package gopool runs many short jobs in goroutines that are used again. A new goroutine begins with a
// small stack and copies it several times before, say, JSON is decoded; one that has done so before
// does not.
package gopool

import "sync"

// Pool runs jobs, each in a goroutine of its own for as long as it takes, however many there are.
// The zero value is not usable; see New.
type Pool struct {
	jobs chan func()
	idle chan struct{}
	stop chan struct{}
	once sync.Once
}

// New returns a pool that keeps up to idle goroutines for jobs to come.
func New(idle int) *Pool {
	return &Pool{jobs: make(chan func()), idle: make(chan struct{}, idle), stop: make(chan struct{})}
}

// Go starts a job. It never waits.
func (c *Pool) Go(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.work(job)
	}
}

// Stop lets idle goroutines end, and the others after their jobs. It is idempotent.
func (c *Pool) Stop() { c.once.Do(func() { close(c.stop) }) }

func (c *Pool) work(job func()) {
	for job != nil {
		job()
		job = c.next()
	}
}

// next returns the next job, or nil when there are goroutines enough.
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
