package clients_test

import (
	"fmt"

	"github.com/orch-dev/orch/mcp/clients"
)

// Install writes the entry of a server into the configuration of a client, and leaves all else in the file as it is.
func ExampleClient_Install() {
	cursor, err := clients.Find("cursor")
	if err != nil {
		panic(err)
	}
	file, err := cursor.File(clients.Place{OS: "linux", Home: "/home/ada", Getenv: func(string) string { return "" }})
	if err != nil {
		panic(err)
	}
	before := []byte("{\n  // mine\n  \"mcpServers\": {}\n}\n")
	entry := clients.Entry{Name: "orch", Command: "/opt/orch", Args: []string{"mcp", "serve"}}
	after, err := cursor.Install(file, before, entry)
	if err != nil {
		panic(err)
	}
	fmt.Println(file)
	fmt.Print(string(after))
	launch, err := cursor.Launch(file, after, "orch")
	fmt.Println(launch.Command, launch.Args, err)
	// Output:
	// /home/ada/.cursor/mcp.json
	// {
	//   // mine
	//   "mcpServers": {
	//     "orch": {
	//       "command": "/opt/orch",
	//       "args": ["mcp", "serve"]
	//     }
	//   }
	// }
	// /opt/orch [mcp serve] <nil>
}

func ExampleIDs() {
	fmt.Println(len(clients.IDs()), clients.IDs()[:3])
	_, err := clients.Find("emacs")
	fmt.Println(err != nil)
	// Output:
	// 12 [antigravity claude-code claude-desktop]
	// true
}
