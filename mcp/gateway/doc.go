// Package gateway makes the tools of external MCP servers tools of orch: they are in the catalogue as server__tool
// beside the built-in ones, and their calls pass the same gates and end in the same log.
//
// Everything that a server sends is data. The definition of each tool (its name, description, schemas and hints) is recorded at
// its first use; when it changes, the tool is blocked until a person accepts the change. The effect of a tool follows from
// its hints and from the configuration, never from its name. Results are limited in size, and checked against the schema if the server
// declares one.
//
// Calls survive restarts where possible: a question of the server becomes a question of the call, which occupies no worker until it is
// answered, and a task that the server makes of a call is recorded in the log before anybody waits for it, so that a restart
// continues the task instead of repeating the call.
package gateway
