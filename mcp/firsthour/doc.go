// Package firsthour tests that an agent can work with orch without training: a fixed policy, which needs no model and uses
// only what its client sees, solves tasks on real repositories over MCP, set up by `orch mcp install`, while the node is killed between
// its calls. The package consists of tests. One of the repositories needs npm and node, and is skipped without them.
package firsthour
