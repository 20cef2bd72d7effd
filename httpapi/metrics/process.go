package metrics

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// Process has figures of this process. A figure of 0 is not known.
type Process struct {
	Started         time.Time
	CPU             time.Duration
	Resident        int64
	Files, MaxFiles int
	Goroutines      uint64
	// Heap is the memory of objects, Mapped all memory of the runtime.
	Heap, Mapped uint64
	// Collections counts the garbage collections, Collecting is the processor time that they took, in seconds.
	Collections uint64
	Collecting  float64
}

// ReadProcess returns the figures of this process. started is when it started.
func ReadProcess(started time.Time) Process {
	p := Process{Started: started, Resident: residentBytes(), Files: openFiles()}
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		p.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		p.MaxFiles = int(min(limit.Cur, 1<<31))
	}
	p.readRuntime()
	return p
}

// readRuntime reads the figures of the runtime, without stopping any goroutine.
func (p *Process) readRuntime() {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	p.Goroutines, p.Heap, p.Mapped = samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	p.Collections, p.Collecting = samples[3].Value.Uint64(), samples[4].Value.Float64()
}

// residentBytes returns the memory of the process that is in RAM; 0 if the system has no /proc.
func residentBytes() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// openFiles counts the open files; 0 if the system has no /proc. Since Linux 6.2 the size of the folder is their number.
func openFiles() int {
	const folder = "/proc/self/fd"
	if info, err := os.Stat(folder); err != nil || info.Size() > 0 {
		if err != nil {
			return 0
		}
		return int(info.Size())
	}
	f, err := os.Open(folder)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	all, err := f.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(all) - 1 // without the folder itself
}

func processFamilies() []Family {
	figure := func(name string, kind Type, help string, of func(Process) float64) Family {
		return Family{name, kind, help, nil, true, func(v *view, t *text) {
			if figure := of(v.Process); figure > 0 {
				t.add(figure)
			}
		}}
	}
	return []Family{
		figure("process_cpu_seconds_total", Counter, "Processor time of the process.", func(p Process) float64 { return p.CPU.Seconds() }),
		figure("process_resident_memory_bytes", Gauge, "Memory of the process in RAM.", func(p Process) float64 { return float64(p.Resident) }),
		figure("process_open_fds", Gauge, "Open files and connections.", func(p Process) float64 { return float64(p.Files) }),
		figure("process_max_fds", Gauge, "The most open files and connections.", func(p Process) float64 { return float64(p.MaxFiles) }),
		figure("process_start_time_seconds", Gauge, "When the process started, in seconds since 1970.", func(p Process) float64 {
			return float64(p.Started.UnixMilli()) / float64(time.Second/time.Millisecond)
		}),
		figure("go_goroutines", Gauge, "Goroutines.", func(p Process) float64 { return float64(p.Goroutines) }),
		figure("go_memstats_heap_alloc_bytes", Gauge, "Memory of the objects of the program.", func(p Process) float64 { return float64(p.Heap) }),
		figure("go_memstats_sys_bytes", Gauge, "Memory that the runtime has mapped.", func(p Process) float64 { return float64(p.Mapped) }),
		figure("go_gc_cycles_total", Counter, "Garbage collections.", func(p Process) float64 { return float64(p.Collections) }),
		figure("go_gc_cpu_seconds_total", Counter, "Processor time of garbage collection.", func(p Process) float64 { return p.Collecting }),
	}
}
