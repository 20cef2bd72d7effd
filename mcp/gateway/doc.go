// Package gateway makes the tools of outside MCP servers tools of orch: they stand in the catalogue as server__tool
// beside the built-in ones, and their calls pass the same gates and end in the same log.
//
// What a server says is data. The definition of each tool (its name, description, schemas and hints) is recorded at
// its first use; when it changes, the tool is blocked until a person accepts the change. What a tool does follows from
// its hints and from the word of the operator, never from its name. Results have a size, and a schema if the server
// promises one.
//
// A call survives what it can: a question of the server is a question of the call, which holds no worker until it is
// answered, and a task that the server makes of a call is noted in the log before it is waited for, so that a restart
// goes on with it instead of repeating it.
package gateway
