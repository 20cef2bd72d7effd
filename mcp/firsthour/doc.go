// Package firsthour tests that an agent can use orch without training. The agent is a fixed program instead of a model. It uses only
// information that an MCP client gets, and solves tasks in real repositories over MCP. The client is configured with
// `orch mcp install`; the node is killed between calls. The package contains only tests. The test with one of the repositories needs
// npm and node, and is skipped without them.
package firsthour
