package crash_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startWithin bounds how long a process may take to become ready.
const startWithin = 30 * time.Second

// process is a node or a worker.
type process struct {
	t     *testing.T
	role  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	began time.Time
	lines chan string   // of the standard output
	done  chan struct{} // closed when the process has ended
	// said is the line that it printed when it was ready.
	said string
}

// spawn starts a process of the test binary in its own group. It has its own directory for temporary files, so that
// leftovers are detected.
func spawn(t *testing.T, role, dir string, env ...string) *process {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = slices.Concat(os.Environ(), []string{envRole + "=" + role, envDir + "=" + dir, "TMPDIR=" + tempDir(dir), envSecret + "=" + secret()}, env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	logs, err := os.OpenFile(filepath.Join(dir, role+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer logs.Close()
	cmd.Stderr = logs
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p := &process{t: t, role: role, cmd: cmd, in: in, began: time.Now(), lines: make(chan string, 1), done: make(chan struct{})}
	require.NoError(t, cmd.Start())
	go p.follow(out)
	return p
}

func (p *process) follow(out io.Reader) {
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<20) // stacks are long
	for scan.Scan() {
		p.lines <- scan.Text()
	}
	_ = p.cmd.Wait() // its state tells
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ready waits until the process is ready and returns how long that took.
func (p *process) ready() time.Duration {
	p.t.Helper()
	p.said = p.line()
	return time.Since(p.began)
}

func (p *process) line() string {
	p.t.Helper()
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case line := <-p.lines:
		return line
	case <-p.done:
		p.t.Fatalf("the %s has ended by itself: %s", p.role, p.cmd.ProcessState)
	case <-timer.C:
		p.t.Fatalf("the %s does not answer", p.role)
	}
	return ""
}

// signal reaches the whole group.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid(), s) }

// kill ends the process without a chance to do anything.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	for {
		select {
		case <-p.lines: // the ready of a process that was killed while it started
		case <-p.done:
			return
		}
	}
}

// terminate stops the process, which must exit with status 0. It has drainWithin for what it does, and as long as for a start to
// close.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(drainWithin + startWithin)
	defer timer.Stop()
	select {
	case <-p.done:
		require.Zero(p.t, p.cmd.ProcessState.ExitCode(), "the %s ended badly: %s", p.role, p.cmd.ProcessState)
	case <-timer.C:
		p.kill()
		p.t.Fatalf("the %s did not end within %s", p.role, drainWithin+startWithin)
	}
	return time.Since(began)
}

// arm makes the process die at a failpoint.
func (p *process) arm(t trap) {
	p.t.Helper()
	p.ask("arm " + string(t.point) + " " + strconv.Itoa(t.pass))
}

// ask sends a line and returns the answer, or "" when the process has ended.
func (p *process) ask(line string) string {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return ""
	}
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case answer := <-p.lines:
		return answer
	case <-p.done:
	case <-timer.C:
		p.t.Fatalf("the %s does not answer", p.role)
	}
	return ""
}

// diesWithin waits until a failpoint kills the process, and kills it after limit. It reports whether the failpoint
// killed it.
func (p *process) diesWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-p.lines: // the answer to arm
		case <-p.done:
			p.signal(syscall.SIGKILL) // what is left of its group
			return true
		case <-timer.C:
			p.kill()
			return false
		}
	}
}

// usage is the resource usage of a process.
type usage struct{ goroutines, files, rss int }

// String formats the usage.
func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MiB", u.goroutines, u.files, u.rss>>20)
}

// stacks returns the goroutine stacks of a process.
func (p *process) stacks() string {
	p.t.Helper()
	text, err := strconv.Unquote(p.ask("stacks"))
	require.NoError(p.t, err)
	return text
}

func (p *process) usage() usage {
	p.t.Helper()
	goroutines, err := strconv.Atoi(p.ask("stats"))
	require.NoError(p.t, err)
	proc := filepath.Join("/proc", strconv.Itoa(p.pid()))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	require.NoError(p.t, err)
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	require.NoError(p.t, err)
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	require.NoError(p.t, err)
	return usage{goroutines, len(files), pages * os.Getpagesize()}
}

// processesOf lists the processes of a test directory that have all of texts in their environment.
func processesOf(dir string, texts ...string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(env, []byte(envDir+"="+dir+"\x00")) && containsAll(string(env), texts) {
			list = append(list, pid)
		}
	}
	return list
}

// about describes a process: its command, parent and state.
func about(pid int) string {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	command, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // it may have ended
	env, _ := os.ReadFile(filepath.Join(proc, "environ"))
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	waits, _ := os.ReadFile(filepath.Join(proc, "wchan"))
	var ours []string
	for text := range strings.SplitSeq(string(env), "\x00") {
		if strings.HasPrefix(text, envRole) || strings.HasPrefix(text, envCall) {
			ours = append(ours, text)
		}
	}
	var lines []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "State") || strings.HasPrefix(line, "PPid") || strings.HasPrefix(line, "SigBlk") || strings.HasPrefix(line, "SigQ") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return fmt.Sprintf("%s; %s; %s; waits in %s", strings.ReplaceAll(string(command), "\x00", " "), strings.Join(ours, " "), strings.Join(lines, ", "), waits)
}

func containsAll(s string, texts []string) bool {
	for _, t := range texts {
		if !strings.Contains(s, t) {
			return false
		}
	}
	return true
}
