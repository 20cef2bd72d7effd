package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memoryTasks is the number of jobs before the memory is measured again, as in `orch bench`.
	memoryTasks = 100_000
	// idleTime is the wait before the memory is measured.
	idleTime = 30 * time.Second
)

// measureMemory measures the memory of a server, idle and after many jobs, and of the worker.
func measureMemory(ctx context.Context, _ options, p peer) ([]row, error) {
	b, err := start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	time.Sleep(idleTime)
	idle := memoryOf(p.server.pid())
	if err := b.runMany(ctx, memoryTasks); err != nil {
		return nil, err
	}
	time.Sleep(idleTime)
	figure := func(id string, value float64) row {
		return row{System: p.name, ID: id, Unit: "MiB", Value: value, Runs: []float64{value}}
	}
	return []row{
		figure("rss-idle", idle), figure("rss-after", memoryOf(p.server.pid())), figure("rss-worker", memoryOf(b.worker.Process.Pid)),
	}, nil
}

// runMany runs n jobs, 64 at a time.
func (b *bench) runMany(ctx context.Context, n int) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Minute)
	defer stop()
	var group sync.WaitGroup
	var begun atomic.Int64
	var failure atomic.Pointer[error]
	for range 64 {
		group.Go(func() {
			for begun.Add(1) <= int64(n) && failure.Load() == nil {
				if err := b.run(ctx, 1, 0); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// memoryOf returns the memory of a process and its children in MiB. Pages that they share count once.
func memoryOf(pid int) float64 {
	total := 0.0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		id := filepath.Base(filepath.Dir(file))
		if parent := string(fields[1]); id == strconv.Itoa(pid) || parent == strconv.Itoa(pid) {
			total += proportionalMemory(id)
		}
	}
	return total
}

// proportionalMemory returns the proportional set size of a process in MiB.
func proportionalMemory(pid string) float64 {
	data, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup") // 0 if the process has ended
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			kib, _ := strconv.ParseFloat(string(bytes.Fields(value)[0]), 64)
			return kib / 1024
		}
	}
	return 0
}
