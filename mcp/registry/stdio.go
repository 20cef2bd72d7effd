package registry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

const (
	// maxLine is the most bytes of a message of a process.
	maxLine = 16 << 20
	// writeTimeout is how long a process may take to read a message.
	writeTimeout = 10 * time.Second
	// drainTime is how long the output of a process is read after the process has ended.
	drainTime = 100 * time.Millisecond
)

// process is a link to a child process.
type process struct {
	service *proc.Service
	stdin   *os.File
	stdout  *messageReader
	stderr  *tailBuffer
	conceal func(string) string

	once sync.Once
	// closing is closed when close is called, exited when close has ended the process.
	closing, exited chan struct{}
	// killed is set if close had to signal the process. It is valid once exited is closed.
	killed bool
}

// spawn starts the process of a definition. It returns EXEC_FAILED if the process cannot be started.
func spawn(services *proc.Services, e expandedConfig, dir string, getenv func(string) string) (*process, error) {
	env := environment(e.Env, getenv)
	program, err := lookPath(e.Command, dir, e.Env["PATH"], getenv("PATH"))
	if err != nil {
		return nil, err
	}
	if e.Cwd != "" {
		dir = absolute(dir, e.Cwd)
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "no pipe to a process can be made")
	}
	defer inRead.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.ExecFailed, err, "no pipe to a process can be made"), inWrite.Close())
	}
	defer outWrite.Close()
	p := &process{
		stdin: inWrite, stderr: &tailBuffer{}, conceal: e.conceal,
		closing: make(chan struct{}), exited: make(chan struct{}),
	}
	p.stdout = newMessageReader(outRead, p.stderr)
	// The process outlives the call that starts it. So it does not use the context of that call.
	cmd := exec.CommandContext(context.Background(), program, e.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, env, inRead, outWrite, p.stderr, endGrace
	if p.service, err = services.Start(cmd); err != nil {
		_, _ = inWrite.Close(), outRead.Close()
		return nil, fault.New(fault.ExecFailed, "the program %s cannot be started: %s", e.Command, e.conceal(err.Error()))
	}
	go p.stopReading()
	return p, nil
}

// stopReading waits for the end of the process and then ends the reading of its output, even if a child of the process still has
// the output open.
func (p *process) stopReading() {
	<-p.service.Done()
	_ = p.stdout.file.SetReadDeadline(time.Now().Add(drainTime))
}

// environment returns the environment of a process: PATH and HOME, and the variables of the definition.
func environment(named map[string]string, getenv func(string) string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME"} {
		if _, ok := named[name]; !ok {
			env = append(env, name+"="+getenv(name))
		}
	}
	for name, value := range named {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// lookPath returns the path of a program. A command with a slash is a path, relative to dir. Any other command is looked up in
// PATH: configured, that of the definition, or inherited if configured is empty.
func lookPath(command, dir, configured, inherited string) (string, error) {
	if strings.ContainsRune(command, filepath.Separator) {
		return absolute(dir, command), nil
	}
	if configured == "" {
		configured = inherited
	}
	for _, folder := range filepath.SplitList(configured) {
		if found, err := exec.LookPath(filepath.Join(absolute(dir, folder), command)); err == nil {
			return found, nil
		}
	}
	return "", fault.New(fault.ExecFailed, "the program %s is not in PATH", command).WithField("command").
		WithHint("install it, or write its absolute path")
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Connect implements mcp.Transport.
func (p *process) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := (&mcp.IOTransport{Reader: p.stdout, Writer: deadlineWriter{p.stdin}, MaxLineLength: maxLine}).Connect(ctx)
	return wrapProcessConn(ctx, conn), err
}

// close closes stdin, and ends the process group if it does not exit.
func (p *process) close() {
	p.once.Do(func() {
		close(p.closing)
		_ = p.stdin.Close()
		p.killed = !p.service.End(endGrace)
		_ = p.stdout.Close()
		close(p.exited)
	})
	<-p.exited
}

func (p *process) stderrTail() string { return p.conceal(p.stderr.String()) }

func (p *process) closeReason() error {
	if problem := p.stdout.problem(); problem != "" {
		return errors.New(problem)
	}
	if !isClosed(p.service.Done()) || isClosed(p.exited) && p.killed {
		return nil
	}
	status := "exit status 0"
	if err := p.service.Err(); err != nil {
		status = err.Error()
	} else if isClosed(p.closing) {
		return nil // close was called
	}
	text := "the process has ended: " + status
	if last := lastLine(p.stderrTail()); last != "" {
		text += ": " + last
	}
	return errors.New(text)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// deadlineWriter sets a deadline for each write.
type deadlineWriter struct{ *os.File }

// Write implements io.Writer.
func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}

// messageReader reads the messages of a process, one per line. It writes lines that are not JSON to aside, because many servers
// print a greeting.
type messageReader struct {
	file    *os.File
	scanner *bufio.Scanner
	aside   io.Writer
	// rest is the part of the current line that Read has not returned.
	rest []byte

	mu sync.Mutex
	// garbage counts the lines that were not JSON, failure describes a message that was too long.
	garbage int
	failure string
}

func newMessageReader(file *os.File, aside io.Writer) *messageReader {
	const first = 64 << 10
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 0, first), maxLine)
	return &messageReader{file: file, scanner: scanner, aside: aside}
}

// Read implements io.Reader.
func (l *messageReader) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		if !l.scanner.Scan() {
			return 0, l.endError(l.scanner.Err())
		}
		line := bytes.TrimSpace(l.scanner.Bytes())
		if len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line) {
			l.rest = slices.Concat(line, []byte{'\n'})
			break
		}
		l.logLine(line)
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// endError converts the error of the scanner to the error that Read returns at the end.
func (l *messageReader) endError(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		l.mu.Lock()
		l.failure = fmt.Sprintf("a message has more than %d MiB", maxLine>>20)
		l.mu.Unlock()
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return io.EOF
	}
	return err
}

func (l *messageReader) logLine(line []byte) {
	if len(line) == 0 {
		return
	}
	l.mu.Lock()
	l.garbage++
	l.mu.Unlock()
	const shown = 200
	_, _ = fmt.Fprintf(l.aside, "stdout: %s\n", line[:min(len(line), shown)]) // a tailBuffer returns no errors
}

// problem describes a message that was too long, or the lines that were not JSON; "" if there were none.
func (l *messageReader) problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.garbage == 0 || l.failure != "" {
		return l.failure
	}
	return fmt.Sprintf("%d lines on stdout were not JSON", l.garbage)
}

// Close implements io.Closer.
func (l *messageReader) Close() error { return l.file.Close() }

// tailBuffer keeps the end of the data written to it.
type tailBuffer struct {
	mu   sync.Mutex
	kept []byte
}

// tailSize is the capacity of a tail buffer in bytes.
const tailSize = 8 << 10

// Write implements io.Writer.
func (r *tailBuffer) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, b...)
	if over := len(r.kept) - tailSize; over > 0 {
		r.kept = slices.Delete(r.kept, 0, over)
	}
	return len(b), nil
}

// String returns the buffered text as valid UTF-8.
func (r *tailBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.ToValidUTF8(string(r.kept), "\ufffd")
}
