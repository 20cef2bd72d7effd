package proc

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// reaperScript keeps the set of process groups that its input names, and kills what is left of them
// when the input ends. It needs nothing but the shell itself, and stays when a service manager asks
// all processes to end: the node then waits for its calls, and the reaper for the node.
//
// Then it looks a few times for those that were being started. They stand still before their first instruction, because
// nobody is there to let them run; or they run, if the node ignores hang-ups, because the kernel lets those go that stand
// still when their parent dies. They bear the mark of the node in their environment, its first argument.
const reaperScript = `trap '' HUP INT TERM
left=' '
while read -r op group; do
	case $op in
	+) left="$left$group " ;;
	.) orderly=1 ;;
	-) case $left in *" $group "*) left="${left%% "$group" *} ${left#* "$group" }" ;; esac ;;
	esac
done
for group in $left; do kill -s KILL -- "-$group"; done 2>/dev/null
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
// chance to do it. It notices by the end of a pipe whose other end no other process holds: every file
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

// add registers a process group until drop.
func (r *reaper) add(group int) { r.tell("+", group) }

func (r *reaper) drop(group int) { r.tell("-", group) }

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
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{}, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = out.Close()
		return err
	}
	r.cmd, r.pipe = cmd, out
	return nil
}

func (r *reaper) tell(op string, group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return
	}
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperPatience))
	if _, err := fmt.Fprintf(r.pipe, "%s %d\n", op, group); err != nil {
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
