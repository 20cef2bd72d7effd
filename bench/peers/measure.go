package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// measure starts the server of a system, measures the wanted figures, and stops it.
func measure(ctx context.Context, o options, p peer) ([]row, error) {
	if err := p.server.start(ctx); err != nil {
		return nil, err
	}
	defer p.server.stop()
	rows, err := measureRates(ctx, o, p)
	for _, m := range []struct {
		ids  []string
		rows func(ctx context.Context, o options, p peer) ([]row, error)
	}{
		{[]string{"sleepers"}, measureSleepers},
		{[]string{"cold-start-existing"}, measureColdStart},
		{[]string{"rss-idle", "rss-after", "rss-worker"}, measureMemory},
	} {
		if err != nil || !slices.ContainsFunc(m.ids, o.wants) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, m.ids)
		var more []row
		more, err = m.rows(ctx, o, p)
		rows = append(rows, more...)
	}
	return rows, err
}

func measureRates(ctx context.Context, o options, p peer) ([]row, error) {
	var rows []row
	for _, w := range workloads() {
		if !slices.ContainsFunc(w.ids, o.wants) {
			continue
		}
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
	return rows, nil
}

func measureSleepers(ctx context.Context, o options, p peer) ([]row, error) {
	return repeat(o, row{System: p.name, ID: "sleepers", Unit: "s"}, func() (float64, error) { return sleepers(ctx, p) })
}

// repeat fills in the figures of a row.
func repeat(o options, r row, take func() (float64, error)) ([]row, error) {
	for range o.runs {
		v, err := take()
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, v)
	}
	r.Value = median(r.Runs)
	return []row{r}, nil
}

// measureColdStart measures the time from launching the server, with its data of before, until the worker that is launched
// next has done its first job.
func measureColdStart(ctx context.Context, o options, p peer) ([]row, error) {
	return repeat(o, row{System: p.name, ID: "cold-start-existing", Unit: "ms"}, func() (float64, error) {
		if err := p.prepare(ctx); err != nil {
			return 0, err
		}
		p.server.stop()
		began := time.Now()
		if err := p.server.start(ctx); err != nil {
			return 0, err
		}
		b, err := startWorker(ctx, p)
		if err != nil {
			return 0, err
		}
		defer b.stop()
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		err = b.run(ctx, 1, 0)
		return millis(time.Since(began)), err
	})
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
		"server": cpuOf(b.peer.server.pid()),
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
