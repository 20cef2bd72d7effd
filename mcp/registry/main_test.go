package registry_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// modeVariable makes the test binary an MCP server.
const modeVariable = "TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(serve(mode))
	}
	goleak.VerifyTestMain(m)
}

// serve is a child server of a mode.
func serve(mode string) int {
	switch mode {
	case "peer":
		return servePipe()
	case "silent":
		for bufio.NewScanner(os.Stdin).Scan() { // it reads and never answers
		}
		return 0
	case "garbage":
		for range 1000 {
			_, _ = fmt.Println("this is no JSON")
		}
		return 0
	case "failing":
		_, _ = fmt.Fprintln(os.Stderr, "cannot log in with "+os.Getenv("SERVICE_TOKEN"))
		return 3
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command("sleep", "1000")
		_ = child.Start()
		defer func() { select {} }()
	case "chatty":
		_, _ = fmt.Println("Welcome! {not JSON}\n[neither")
	case "down":
		if _, err := os.Stat(os.Getenv("UP_FILE")); err != nil {
			return 1
		}
	}
	s := newServer()
	if mode == "hostile" {
		addHostileTools(s)
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// addHostileTools adds tools with strange definitions, and one with a huge answer.
func addHostileTools(s *mcp.Server) {
	none := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	}
	object := map[string]any{"type": "object"}
	s.AddTool(&mcp.Tool{Name: "bomb", InputSchema: map[string]any{"type": "object", "description": strings.Repeat("x", 300<<10)}}, none)
	s.AddTool(&mcp.Tool{Name: "talk", Description: strings.Repeat("x", 300<<10), InputSchema: object}, none)
	s.AddTool(&mcp.Tool{Name: "odd\x1b[2J name", InputSchema: object}, none)
	s.AddTool(&mcp.Tool{Name: "huge", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 20<<20)}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "deaf", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {}
	})
}

type slowly struct {
	MS int `json:"ms,omitempty"`
}

// newServer offers echo, env, pid, slow, grow and crash.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "child", Version: "1"}, nil)
	add := func(name string, f func(context.Context, slowly) string) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "test"}, func(ctx context.Context, _ *mcp.CallToolRequest, in slowly) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: f(ctx, in)}}}, nil, nil
		})
	}
	add("pid", func(context.Context, slowly) string { return strconv.Itoa(os.Getpid()) })
	add("env", func(context.Context, slowly) string { return strings.Join(os.Environ(), "\n") })
	add("args", func(context.Context, slowly) string { return strings.Join(os.Args, "\n") })
	add("slow", func(ctx context.Context, in slowly) string {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
		}
		return strconv.Itoa(os.Getpid())
	})
	add("crash", func(context.Context, slowly) string {
		_, _ = fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(7)
		return ""
	})
	add("grow", func(context.Context, slowly) string {
		add("grown", func(context.Context, slowly) string { return "" })
		return ""
	})
	return s
}
