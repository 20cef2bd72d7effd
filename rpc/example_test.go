package rpc_test

import (
	"context"
	"fmt"
	"os"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/rpc"
)

// A method is a function on values. Its errors reach the caller with their code.
func ExampleServe() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: dir, Durability: bus.Relaxed})
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close(ctx) }()
	conn, err := server.Connect(ctx)
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	endpoint, err := rpc.Serve(conn, "example", map[string]rpc.Method{
		"greet": rpc.Handle(func(_ context.Context, who string) (string, error) { return "hello " + who, nil }),
	}, rpc.EndpointConfig{})
	if err != nil {
		panic(err)
	}
	var said string
	err = rpc.Call(ctx, conn, "example.greet", "Ada", &said)
	fmt.Println(said, err)
	fmt.Println(rpc.Call(ctx, conn, "example.leave", "Ada", nil))
	fmt.Println(endpoint.Close(ctx))
	// Output:
	// hello Ada <nil>
	// METHOD_NOT_FOUND: there is no method "leave"
	// <nil>
}
