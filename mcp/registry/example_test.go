package registry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/mcp/registry"
)

// folder returns a folder for an example, and what removes it.
func folder() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

// Import reads the file of an MCP client.
func ExampleImport() {
	dir, remove := folder()
	defer remove()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {
		"GitHub": {"command": "npx", "args": ["-y", "github-mcp"]},
		"docs": {"url": "https://docs.example.com/mcp"}
	}}`), 0o600); err != nil {
		panic(err)
	}
	imported, err := registry.Import(file)
	if err != nil {
		panic(err)
	}
	for _, s := range imported.Servers {
		fmt.Printf("%s %s %q\n", s.Name, s.Transport, s.Command+s.BaseURL)
	}
	// Output:
	// github stdio "npx"
	// docs http "https://docs.example.com/mcp"
}

// A registry finds the definitions of servers in the folders of a project and of a user, checks them, and starts those that are
// enabled.
func ExampleNew() {
	dir, remove := folder()
	defer remove()
	definitions := filepath.Join(dir, ".orch", "mcp")
	if err := os.MkdirAll(definitions, 0o700); err != nil {
		panic(err)
	}
	const echo = `{"name": "echo", "transport": "stdio", "command": "echo-server", "enabled": false}`
	if err := os.WriteFile(filepath.Join(definitions, "echo.json"), []byte(echo), 0o600); err != nil {
		panic(err)
	}
	r, err := registry.New(registry.Config{Dir: dir, Home: filepath.Join(dir, "home"), Still: true, Getenv: func(string) string { return "" }})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	ready, err := r.Init(ctx)
	fmt.Println(ready, err)
	problems, err := r.Validate(ctx)
	fmt.Println(len(problems), err)
	fmt.Println(r.Close(ctx, time.Second))
	// Output:
	// 0 <nil>
	// 0 <nil>
	// <nil>
}
