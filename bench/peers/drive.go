package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// idle is a queue without workers. It serves to measure only submissions.
const idle = "nobody"

// job is a no-op job. When it runs, it enqueues the next job if Steps is not 0. A job with the id idleID is enqueued in the
// queue idle.
type job struct {
	ID    int64 `json:"id"`
	Steps int   `json:"steps"` // the number of jobs that follow this one
}

const idleID = -1

// client enqueues jobs.
type client interface {
	// submit enqueues a job durably, to run after a delay.
	submit(ctx context.Context, j job, delay time.Duration) error
	// submitMany enqueues many jobs at once. It returns errNoBatch if the system does not support that.
	submitMany(ctx context.Context, jobs []job) error
	close()
}

var errNoBatch = errors.New("no batches")

// peer is a system under test.
type peer struct {
	name    string
	options options
	server  *server
	// prepare empties the system. It is called before each measurement.
	prepare func(ctx context.Context) error
	dial    func(ctx context.Context) (client, error)
	// work runs a worker with 256 concurrent jobs until ctx ends. It calls ready once, and done for each finished job.
	work func(ctx context.Context, ready func(), done func(id int64)) error
}

// work runs the worker process. It writes the id of each finished job as a line.
func work(ctx context.Context, p peer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // this process ends when the driver does
		stop()
	}()
	lines := make(chan int64, 8192)
	go func() {
		out := bufio.NewWriter(os.Stdout)
		for id := range lines {
			_, _ = out.Write(append(strconv.AppendInt(out.AvailableBuffer(), id, 10), '\n'))
			if len(lines) == 0 {
				_ = out.Flush()
			}
		}
	}()
	return p.work(ctx, func() { lines <- 0 }, func(id int64) { lines <- id })
}

// bench is a peer with its worker process, and the driver in this process.
type bench struct {
	client client
	peer   peer
	worker *exec.Cmd
	stdin  io.Closer
	next   atomic.Int64

	mu      sync.Mutex
	waiting map[int64]chan struct{}
}

// start empties a system and starts its worker.
func start(ctx context.Context, p peer) (*bench, error) {
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	return startWorker(ctx, p)
}

func startWorker(ctx context.Context, p peer) (*bench, error) {
	b := &bench{peer: p, waiting: map[int64]chan struct{}{}}
	b.worker = exec.CommandContext(ctx, os.Args[0], p.options.workerArgs(p.name)...)
	b.worker.Stderr = os.Stderr
	b.worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := b.worker.StdinPipe()
	if err != nil {
		return nil, err
	}
	b.stdin = in
	out, err := b.worker.StdoutPipe()
	if err == nil {
		err = b.worker.Start()
	}
	if err != nil {
		return nil, err
	}
	scan := bufio.NewScanner(out)
	if !scan.Scan() {
		b.stop()
		return nil, errors.New("the worker did not start")
	}
	go b.follow(scan)
	if b.client, err = p.dial(ctx); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// follow reads the ids of finished jobs and wakes their waiters.
func (b *bench) follow(scan *bufio.Scanner) {
	for scan.Scan() {
		id, _ := strconv.ParseInt(scan.Text(), 10, 64) // no job has the id 0
		b.mu.Lock()
		finished := b.waiting[id]
		delete(b.waiting, id)
		b.mu.Unlock()
		if finished != nil {
			close(finished)
		}
	}
}

func (b *bench) stop() {
	if b.client != nil {
		b.client.close()
	}
	_ = b.stdin.Close()
	kill := time.AfterFunc(20*time.Second, func() { _ = b.worker.Process.Kill() })
	defer kill.Stop()
	_ = b.worker.Wait()
}

// run enqueues the first of a chain of jobs and waits until the last one has finished.
func (b *bench) run(ctx context.Context, steps int, delay time.Duration) error {
	id := b.next.Add(1)
	finished := make(chan struct{})
	b.mu.Lock()
	b.waiting[id] = finished
	b.mu.Unlock()
	if err := b.client.submit(ctx, job{ID: id, Steps: steps - 1}, delay); err != nil {
		return err
	}
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("job %d has not finished: %w", id, ctx.Err())
	}
}

// sample is the measurement of one run of a workload, see drive.
type sample struct {
	rate     float64
	p50, p99 float64 // ms
	cpu      map[string]float64
}

// drive calls once in n goroutines for length. once runs or enqueues some jobs, and returns their number.
func (b *bench) drive(ctx context.Context, n int, length time.Duration, once func(ctx context.Context) (int, error)) (sample, error) {
	ctx, stop := context.WithTimeout(ctx, length+2*time.Minute)
	defer stop()
	var group sync.WaitGroup
	var count atomic.Int64
	var failure atomic.Pointer[error]
	times := make([][]time.Duration, n)
	before := b.cpu()
	began := time.Now()
	end := began.Add(length)
	for i := range n {
		group.Go(func() {
			for time.Now().Before(end) && failure.Load() == nil {
				at := time.Now()
				did, err := once(ctx)
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				times[i] = append(times[i], time.Since(at))
				count.Add(int64(did))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if err := failure.Load(); err != nil {
		return sample{}, *err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	s := sample{rate: float64(count.Load()) / took.Seconds(), cpu: map[string]float64{}}
	if len(all) > 0 {
		s.p50, s.p99 = millis(all[len(all)/2]), millis(all[len(all)*99/100])
	}
	for name, used := range b.cpu() {
		s.cpu[name] = float64((used - before[name]).Microseconds()) / float64(max(count.Load(), 1))
	}
	return s, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
