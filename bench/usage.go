package bench

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
)

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf returns the CPU time of another process, in steps of 10 ms; 0 if it does not exist.
func cpuOf(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain any characters; utime and stime have the indexes 11 and 12 in the
	// fields after it.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0
	}
	user, _ := strconv.Atoi(string(fields[utime]))
	system, _ := strconv.Atoi(string(fields[stime]))
	return time.Duration(user+system) * tick
}

// memory is the memory of a process in MiB: resident, peak resident, and anonymous. Anonymous memory excludes mapped
// files such as the program.
type memory struct{ now, peak, anonymous float64 }

// memoryOf returns the memory of a process.
func memoryOf(pid int) (memory, error) {
	var m memory
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return m, fault.Wrap(fault.ExecFailed, err, "the memory of a process cannot be read")
	}
	const kibPerMiB = 1024
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, _ := strconv.ParseFloat(string(fields[1]), 64)
		switch string(fields[0]) {
		case "VmRSS:":
			m.now = value / kibPerMiB
		case "VmHWM:":
			m.peak = value / kibPerMiB
		case "RssAnon:":
			m.anonymous = value / kibPerMiB
		}
	}
	return m, nil
}

// diskOf returns the disk space of a directory in bytes.
func diskOf(dir string) (int64, error) {
	const block = 512
	size := int64(0)
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			size += stat.Blocks * block
		}
		return nil
	})
	if err != nil {
		return 0, fault.Wrap(fault.ExecFailed, err, "the size of "+dir+" cannot be read")
	}
	return size, nil
}
