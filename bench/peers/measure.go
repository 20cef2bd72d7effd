package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// workload is a workload of `orch bench`.
type workload struct {
	ids      []string
	inFlight int
	once     func(ctx context.Context, b *bench) (int, error)
}

func workloads() []workload {
	run := func(steps int) func(context.Context, *bench) (int, error) {
		return func(ctx context.Context, b *bench) (int, error) { return 1, b.run(ctx, steps, 0) }
	}
	return []workload{
		{[]string{"1-step"}, 4000, run(1)},
		{[]string{"10-step"}, 1000, run(10)},
		{[]string{"latency-p50", "latency-p99"}, 1, run(1)},
		{[]string{"submit"}, 16, func(ctx context.Context, b *bench) (int, error) {
			return 1, b.client.submit(ctx, job{ID: idleID}, 0)
		}},
		{[]string{"batch"}, 4, func(ctx context.Context, b *bench) (int, error) {
			jobs := make([]job, 500)
			for i := range jobs {
				jobs[i].ID = idleID
			}
			return len(jobs), b.client.submitMany(ctx, jobs)
		}},
	}
}

// measure measures all figures of a system.
func measure(ctx context.Context, o options, p peer) ([]row, error) {
	var rows []row
	for _, w := range workloads() {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, w.ids)
		var samples []sample
		for range o.runs {
			s, err := runOnce(ctx, p, w, o.length)
			if errors.Is(err, errNoBatch) {
				break
			}
			if err != nil {
				return rows, err
			}
			samples = append(samples, s)
		}
		for _, id := range w.ids {
			if len(samples) > 0 {
				rows = append(rows, rowOf(p.name, id, samples))
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%s: sleepers\n", p.name)
	r := row{System: p.name, ID: "sleepers", Unit: "s"}
	for range o.runs {
		took, err := sleepers(ctx, p)
		if err != nil {
			return rows, err
		}
		r.Runs = append(r.Runs, took)
	}
	r.Value = median(r.Runs)
	return append(rows, r), nil
}

// runOnce measures a workload once: it empties the system, warms up, and drives it for length.
func runOnce(ctx context.Context, p peer, w workload, length time.Duration) (sample, error) {
	b, err := start(ctx, p)
	if err != nil {
		return sample{}, err
	}
	defer b.stop()
	once := func(ctx context.Context) (int, error) { return w.once(ctx, b) }
	if _, err := b.drive(ctx, min(w.inFlight, 64), length/5, once); err != nil {
		return sample{}, err
	}
	return b.drive(ctx, w.inFlight, length, once)
}

func rowOf(system, id string, samples []sample) row {
	of, unit := func(s sample) float64 { return s.rate }, "tasks/s"
	switch id {
	case "latency-p50":
		of, unit = func(s sample) float64 { return s.p50 }, "ms"
	case "latency-p99":
		of, unit = func(s sample) float64 { return s.p99 }, "ms"
	}
	each := func(of func(sample) float64) []float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = of(s)
		}
		return values
	}
	r := row{System: system, ID: id, Unit: unit, Runs: each(of), CPUMicros: map[string]float64{}}
	r.Value = median(r.Runs)
	for name := range samples[0].cpu {
		r.CPUMicros[name] = median(each(func(s sample) float64 { return s.cpu[name] }))
	}
	return r
}

// sleepers submits 1,000 jobs with a delay of 1 s, and returns the time from the first submission until all have ended.
func sleepers(ctx context.Context, p peer) (float64, error) {
	b, err := start(ctx, p)
	if err != nil {
		return 0, err
	}
	defer b.stop()
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	var group sync.WaitGroup
	const jobs = 1000
	errs := make(chan error, jobs)
	began := time.Now()
	for range jobs {
		group.Go(func() { errs <- b.run(ctx, 1, time.Second) })
	}
	group.Wait()
	took := time.Since(began).Seconds()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

// cpu returns the CPU time of each process of the system.
func (b *bench) cpu() map[string]time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for the own process
	return map[string]time.Duration{
		"driver": time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		"worker": cpuOf(b.worker.Process.Pid),
		"server": cpuOf(b.peer.serverPID),
	}
}

// cpuOf returns the CPU time of a process and its children, running and ended.
func cpuOf(pid int) time.Duration {
	total := time.Duration(0)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if len(fields) < 15 {
			continue
		}
		number := func(i int) int { n, _ := strconv.Atoi(string(fields[i])); return n }
		own := filepath.Base(filepath.Dir(file)) == strconv.Itoa(pid)
		const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
		switch {
		case own:
			total += time.Duration(number(11)+number(12)+number(13)+number(14)) * tick
		case number(1) == pid:
			total += time.Duration(number(11)+number(12)) * tick
		}
	}
	return total
}
