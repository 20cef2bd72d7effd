package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// tryTimeout is how long a server may take to start and to list its tools, exitTimeout how long it may take to exit.
	tryTimeout, exitTimeout = time.Minute, 10 * time.Second
	// maxMessage is the most bytes of one message of a server, maxStderr the most bytes retained of its stderr.
	maxMessage, maxStderr = 16 << 20, 2 << 10
	// maxPages is the most pages of the list of tools.
	maxPages = 100
)

// Trial is the result of Try.
type Trial struct {
	// Server and Version are the name and version that the server reports.
	Server  string `json:"server"`
	Version string `json:"version"`
	// Tools is the number of the server's tools, Bytes the size of the list of tools.
	Tools int `json:"tools"`
	Bytes int `json:"bytes"`
}

// Try starts a server as an MCP client does, sends initialize, lists the tools, and stops the server. The server runs in the root
// directory, with the environment that clients pass to servers, not that of the shell. If something fails, Try returns EXEC_FAILED
// with a description of the problem.
func Try(ctx context.Context, l Launch, getenv func(string) string) (Trial, error) {
	ctx, stop := context.WithTimeout(ctx, tryTimeout)
	defer stop()
	stderr := &tail{}
	cmd := exec.CommandContext(ctx, l.Command, l.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = string(filepath.Separator), l.environment(getenv), stderr, exitTimeout
	cmd.Cancel = func() error { return endProcess(cmd) }
	in, err := cmd.StdinPipe()
	if err != nil {
		return Trial{}, fault.New(fault.ExecFailed, "no pipe to a program can be made: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Trial{}, fault.New(fault.ExecFailed, "no pipe to a program can be made: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return Trial{}, fault.New(fault.ExecFailed, "%s cannot be started: %w", l.Command, err)
	}
	unblock := context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
	defer unblock()
	t, err := newRPCConn(in, out).inspect()
	_ = in.Close() // the server exits at the end of its input
	if err != nil && ctx.Err() == nil {
		stop()
	}
	ended := cmd.Wait()
	if err != nil {
		return Trial{}, fault.New(fault.ExecFailed, "%s%s", fault.From(err).Message, stderr)
	}
	if ended != nil {
		return Trial{}, fault.New(fault.ExecFailed, "it lists its tools and then ends with %w%s", ended, stderr)
	}
	return t, nil
}

// endProcess sends SIGTERM to a program. On Windows it kills the program.
func endProcess(cmd *exec.Cmd) error {
	if runtime.GOOS == "windows" {
		return cmd.Process.Kill()
	}
	return cmd.Process.Signal(syscall.SIGTERM)
}

// environment returns the environment of a server: the variables that clients pass to servers (those that the MCP SDKs pass), and
// the variables of the entry.
func (l Launch) environment(getenv func(string) string) []string {
	names := []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
	if runtime.GOOS == "windows" {
		names = []string{
			"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT",
			"TEMP", "USERNAME", "USERPROFILE", "PROGRAMFILES",
		}
	}
	var env []string
	for _, name := range names {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range l.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// rpcConn is a JSON-RPC connection with one message per line.
type rpcConn struct {
	in   *json.Encoder
	out  *bufio.Scanner
	last int
}

func newRPCConn(in io.Writer, out io.Reader) *rpcConn {
	d := &rpcConn{in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	d.out.Buffer(nil, maxMessage)
	return d
}

type object = map[string]any

// inspect sends initialize and counts the tools.
func (d *rpcConn) inspect() (Trial, error) {
	raw, err := d.request("initialize", object{
		"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "orch-mcp-install", "version": "1"},
	})
	if err != nil {
		return Trial{}, err
	}
	var hello struct {
		ServerInfo struct{ Name, Version string } `json:"serverInfo"`
	}
	if err := json.Unmarshal(raw, &hello); err != nil {
		return Trial{}, fault.New(fault.InvalidFormat, "its answer to initialize is not valid: %w", err)
	}
	t := Trial{Server: hello.ServerInfo.Name, Version: hello.ServerInfo.Version}
	d.send(object{"jsonrpc": "2.0", "method": "notifications/initialized"})
	err = d.tools(&t)
	return t, err
}

// tools adds the tools on all pages of the list to t.
func (d *rpcConn) tools(t *Trial) error {
	params := object{}
	for range maxPages {
		raw, err := d.request("tools/list", params)
		if err != nil {
			return err
		}
		var page struct {
			Tools      json.RawMessage `json:"tools"`
			NextCursor string          `json:"nextCursor"`
		}
		var tools []json.RawMessage
		err = json.Unmarshal(raw, &page)
		if err == nil {
			err = json.Unmarshal(page.Tools, &tools)
		}
		if err != nil {
			return fault.New(fault.InvalidFormat, "its answer to tools/list is not valid: %w", err)
		}
		t.Tools, t.Bytes = t.Tools+len(tools), t.Bytes+len(page.Tools)
		if page.NextCursor == "" {
			return nil
		}
		params["cursor"] = page.NextCursor
	}
	return fault.New(fault.ExecFailed, "its list of tools has no end")
}

// send sends a message. It ignores errors: if the program has exited, request returns an error, and the output of the program
// describes the problem better than a broken pipe.
func (d *rpcConn) send(message object) { _ = d.in.Encode(message) }

// request sends a request and returns the result.
func (d *rpcConn) request(method string, params object) (json.RawMessage, error) {
	d.last++
	d.send(object{"jsonrpc": "2.0", "id": d.last, "method": method, "params": params})
	for d.out.Scan() {
		var m struct {
			ID     any
			Method string
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(d.out.Bytes(), &m); err != nil {
			return nil, fault.New(fault.InvalidFormat, "it writes on stdout a line that is not a message: %.200q", d.out.Text())
		}
		switch {
		case m.Method != "" || m.ID != float64(d.last):
		case m.Error != nil:
			return nil, fault.New(fault.ExecFailed, "it answers %s with an error: %s", method, m.Error.Message)
		default:
			return m.Result, nil
		}
	}
	if err := d.out.Err(); err != nil {
		return nil, fault.New(fault.ExecFailed, "its answer to %s cannot be read: %w", method, err)
	}
	return nil, fault.New(fault.ExecFailed, "it ends, or its time does, before it answers %s", method)
}

// tail retains the last maxStderr bytes written to it.
type tail struct{ text []byte }

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxStderr):]
	return len(p), nil
}

// String returns the text as the end of an error message; "" if there is no text.
func (t *tail) String() string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "")
	if text == "" {
		return ""
	}
	return "; it said: " + text
}
