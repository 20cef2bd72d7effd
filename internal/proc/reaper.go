package proc

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reaperScript maintains the set of process groups that it reads from its input. It kills the remaining groups when the
// node's end of the pipe closes. It also kills each group that is past its deadline by the machine's clock
// (/proc/uptime), because the node itself may be stopped. It needs only the shell, sleep, and grep. It ignores
// termination signals, because a service manager sends them to all processes: the node then waits for its calls, and
// the reaper waits for the node.
//
// The lines of the node (descriptor 4) and the ticks of a timer are merged into one pipe (written to 3, read from 0),
// because a shell cannot wait for both. The timer runs while there are groups.
//
// Finally it searches a few times for processes that the node was starting. They are stopped before their first
// instruction, and no process resumes them. If the node ignores SIGHUP they run, because the kernel resumes stopped
// processes when their parent dies. The script recognizes them by the mark of the node in their environment. The mark
// is $0, the first argument after the script.
const reaperScript = `trap '' HUP INT TERM
{
	while read -r line; do echo "$line"; done
	echo '!'
} <&4 >&3 &
exec 4<&-
left=' '
timer=
forget() {
	case $left in *" $1:"*)
		rest=${left#*" $1:"}
		left="${left%%" $1:"*} ${rest#* }"
	esac
}
overdue() {
	read -r now rest </proc/uptime
	for item in $left; do
		limit=${item#*:}
		[ "$limit" -gt 0 ] && [ "${now%.*}" -ge "$limit" ] || continue
		kill -s KILL -- "-${item%:*}"
		forget "${item%:*}"
	done
}
tick() {
	[ "$left" != ' ' ] && [ -z "$timer" ] || return 0
	{ sleep 1; echo '@'; } </dev/null >&3 &
	timer=$!
}
while read -r op group limit; do
	case $op in
	+) left="$left$group:$limit "; tick ;;
	-) forget "$group" ;;
	@) wait "$timer"; timer=; overdue; tick ;;
	.) orderly=1 ;;
	!) break ;;
	esac
done 2>/dev/null
for item in $left; do kill -s KILL -- "-${item%:*}"; done 2>/dev/null
[ -z "$orderly" ] && [ -n "$0" ] || exit 0
for pause in 0 0.1 0.4 1; do
	sleep $pause
	for file in $(grep -lsF -- "$0" /proc/[0-9]*/environ); do
		pid=${file#/proc/}
		kill -s KILL "${pid%/*}"
	done
done 2>/dev/null`

// newMark returns the environment variable by which a reaper identifies the children of its node.
func newMark() string { return "ORCH_STARTED_BY=" + strconv.Itoa(os.Getpid()) + "." + rand.Text() }

// reaperPatience bounds a write to the reaper. The reaper reads immediately unless it was stopped.
const reaperPatience = time.Second

// reaper is a helper process that kills the process groups of running calls if this process dies first, or is stopped
// past their deadlines. The helper notices the death when its pipe ends: only this process has the other end, because
// its files are closed on exec. Data in the pipe is read even after a sudden death.
//
// It does not kill processes that have left their group (setsid), nor processes that a call starts just before its
// group is registered. After it was killed itself, it kills nothing.
type reaper struct {
	log *slog.Logger
	// mark is the environment variable, as "NAME=value", of children that are started stopped.
	mark string

	mu       sync.Mutex
	cmd      *exec.Cmd // nil unless it runs
	pipe     *os.File
	disabled bool // closed, or could not be started
	logged   bool
}

// add registers a process group until drop is called. The reaper kills the group after the deadline, if there is one.
func (r *reaper) add(group int, deadline time.Time) {
	r.send("+ %d %d\n", group, inUptime(deadline))
}

func (r *reaper) drop(group int) { r.send("- %d\n", group) }

// inUptime converts a time to whole seconds of /proc/uptime, rounded up. It returns 0 for the zero time, and if
// /proc/uptime cannot be read.
func inUptime(at time.Time) int64 {
	data, err := os.ReadFile("/proc/uptime")
	if at.IsZero() || err != nil {
		return 0
	}
	seconds, _, _ := strings.Cut(string(data), ".")
	now, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return 0
	}
	return now + 1 + int64(max(time.Until(at)+time.Second-1, 0)/time.Second)
}

// start starts the helper process unless that was tried before. Calls run even without a helper process.
func (r *reaper) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil || r.disabled {
		return
	}
	if err := r.launch(); err != nil {
		r.disabled = true
		r.logOnce(err)
	}
}

func (r *reaper) launch() error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	// The reaper outlives the first call, so it does not use the context of that call.
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", reaperScript, r.mark)
	lines, ticks, err := os.Pipe()
	if err != nil {
		_ = out.Close()
		return err
	}
	defer lines.Close()
	defer ticks.Close()
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.ExtraFiles = "/", []string{}, lines, []*os.File{ticks, in}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = out.Close()
		return err
	}
	r.cmd, r.pipe = cmd, out
	return nil
}

func (r *reaper) send(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return
	}
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperPatience))
	if _, err := fmt.Fprintf(r.pipe, format, args...); err != nil {
		r.logOnce(err)
	}
}

// logOnce logs the first error only: a persistent one would be logged with every call.
func (r *reaper) logOnce(err error) {
	if !r.logged {
		r.logged = true
		r.log.Warn("reaper_unavailable", slog.Any("error", err))
	}
}

// close stops the helper process and waits for its end. The helper process is not started again.
func (r *reaper) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disabled = true
	if r.cmd == nil {
		return nil
	}
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperPatience))
	_, _ = r.pipe.WriteString(".\n") // no process is being started, so the script need not search for any
	_ = r.pipe.Close()
	err := r.cmd.Wait()
	r.cmd = nil
	return err
}
