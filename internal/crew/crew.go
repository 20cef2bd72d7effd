// Package crew runs many short jobs in goroutines that are used again. A new goroutine begins with a
// small stack and copies it several times before, say, JSON is decoded; one that has done so before
// does not.
package crew

import "sync"

// Crew runs jobs, each in a goroutine of its own for as long as it takes, however many there are.
// The zero value is not usable; see New.
type Crew struct {
	jobs chan func()
	idle chan struct{}
	stop chan struct{}
	once sync.Once
}

// New returns a crew that keeps up to idle goroutines for jobs to come.
func New(idle int) *Crew {
	return &Crew{jobs: make(chan func()), idle: make(chan struct{}, idle), stop: make(chan struct{})}
}

// Go starts a job. It never waits.
func (c *Crew) Go(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.work(job)
	}
}

// Stop lets idle goroutines end, and the others after their jobs. It is idempotent.
func (c *Crew) Stop() { c.once.Do(func() { close(c.stop) }) }

func (c *Crew) work(job func()) {
	for job != nil {
		job()
		job = c.next()
	}
}

// next returns the next job, or nil when there are goroutines enough.
func (c *Crew) next() func() {
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
