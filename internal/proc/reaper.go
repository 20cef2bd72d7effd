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

// reaperScript keeps the set of process groups that its input names. It kills what is left of them when the input of the
// node ends, and each whose time is over by the clock of the machine (/proc/uptime): the node may stand still and be unable
// to. It needs nothing but the shell and sleep, and stays when a service manager asks all processes to end: the node then
// waits for its calls, and the reaper for the node.
//
// What the node says (descriptor 4) is copied to where the ticks of a timer come as well (written to 3, read from 0), because
// a shell cannot wait for both. The timer runs as long as there are groups.
//
// Then it looks a few times for those that were being started. They stand still before their first instruction, because
// nobody is there to let them run; or they run, if the node ignores hang-ups, because the kernel lets those go that stand
// still when their parent dies. They bear the mark of the node in their environment, its first argument.
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

// newMark returns the variable by which a reaper knows the children of its node.
func newMark() string { return "ORCH_STARTED_BY=" + strconv.Itoa(os.Getpid()) + "." + rand.Text() }

// reaperPatience is how long a line for the reaper may take; it reads at once unless it was stopped.
const reaperPatience = time.Second

// reaper is a helper process that ends the groups of running calls when this process dies without a
// chance to do it, or stands still until after their deadlines. It notices by the end of a pipe whose other end no other process holds: every file
// of this process is closed on exec. What is written to the pipe is read even after a sudden death.
//
// It does not catch processes that have left their group (setsid), nor those that a call starts in
// the moment before its group is registered, and it is of no use once it was killed itself.
type reaper struct {
	log *slog.Logger
	// mark is the variable that children are started with which stand still at first.
	mark string

	mu     sync.Mutex
	cmd    *exec.Cmd // nil unless it runs
	pipe   *os.File
	over   bool // it was closed or could not be started
	logged bool
}

// add registers a process group until drop. After its deadline, if it has one, it is killed.
func (r *reaper) add(group int, deadline time.Time) {
	r.tell("+ %d %d\n", group, inUptime(deadline))
}

func (r *reaper) drop(group int) { r.tell("- %d\n", group) }

// inUptime returns a time in whole seconds of /proc/uptime, rounded up; 0 for none, and where that cannot be read.
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

// start starts the helper process unless that was tried before. Without one, calls still run.
func (r *reaper) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil || r.over {
		return
	}
	if err := r.launch(); err != nil {
		r.over = true
		r.complain(err)
	}
}

func (r *reaper) launch() error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	// It outlives the call that happens to be the first, so the context of that is not its own.
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

func (r *reaper) tell(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return
	}
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperPatience))
	if _, err := fmt.Fprintf(r.pipe, format, args...); err != nil {
		r.complain(err)
	}
}

// complain logs the first problem: one that stays would otherwise be logged with every call.
func (r *reaper) complain(err error) {
	if !r.logged {
		r.logged = true
		r.log.Warn("reaper_unavailable", slog.Any("error", err))
	}
}

// close ends the helper process and waits for it. No other is started afterwards.
func (r *reaper) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.cmd == nil {
		return nil
	}
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperPatience))
	_, _ = r.pipe.WriteString(".\n") // nothing is being started, so nothing has to be looked for
	_ = r.pipe.Close()
	err := r.cmd.Wait()
	r.cmd = nil
	return err
}
