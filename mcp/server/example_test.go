package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/tools"
)

// A face serves one client over stdin and stdout until the client ends its input.
func ExampleServer_Serve() {
	catalogue, err := tools.New()
	if err != nil {
		panic(err)
	}
	face, err := server.New(server.Config{
		API: struct{ api.API }{}, Catalogue: catalogue, Version: "0.1.0", Local: server.Identity{Name: "user:ada", Role: server.Operator},
	})
	if err != nil {
		panic(err)
	}
	defer face.Close()
	stdin, requests := io.Pipe()
	answers, stdout := io.Pipe()
	ended := make(chan error)
	go func() { ended <- face.Serve(context.Background(), stdin, stdout) }()

	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}` + "\n"
	if _, err := io.WriteString(requests, hello); err != nil {
		panic(err)
	}
	var answer struct {
		Result struct {
			ProtocolVersion string
			ServerInfo      struct{ Name, Version string }
		}
	}
	if err := json.NewDecoder(answers).Decode(&answer); err != nil {
		panic(err)
	}
	fmt.Println(answer.Result.ProtocolVersion, answer.Result.ServerInfo.Name, answer.Result.ServerInfo.Version)
	_ = answers.Close() // the line may have more to write
	_ = requests.Close()
	fmt.Println(<-ended)
	// Output:
	// 2025-11-25 orch 0.1.0
	// <nil>
}

// A profile shows tools under words of its own.
func ExampleBehind() {
	fmt.Println(server.Profiles())
	fmt.Println(server.Behind(server.ProfileCoding, "read"))
	// Output:
	// [all coding operations network]
	// FILE_READ
}

// A page of another origin that has a name for the loopback address does not reach a node.
func ExampleRebound() {
	ctx := context.WithValue(context.Background(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7424})
	for _, host := range []string{"127.0.0.1:7424", "localhost:7424", "attacker.example:7424"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/mcp", nil)
		fmt.Println(host, server.Rebound(r))
	}
	// Output:
	// 127.0.0.1:7424 false
	// localhost:7424 false
	// attacker.example:7424 true
}
