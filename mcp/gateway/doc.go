// Package gateway adds the tools of external MCP servers to the catalogue of orch, with names such as server__tool. Their calls are
// subject to the same rules as calls of built-in tools, and are recorded in the same log.
//
// Everything that a server sends is untrusted data. The definition of each tool (its name, description, schemas and hints) is
// recorded at its first use. When the definition changes, the tool is blocked until a person accepts the change. The effect of a
// tool is derived from its hints and from the configuration, never from its name. Results are limited in size, and checked against
// the output schema if the tool has one.
//
// Calls survive restarts where possible. A question of the server becomes a question of the call, which occupies no worker until
// it is answered. If the server turns a call into an MCP task, the task is recorded in the log before the call waits for it, so that
// a restart continues the task instead of repeating the call.
package gateway
