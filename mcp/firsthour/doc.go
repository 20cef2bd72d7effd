// Package firsthour shows that an agent can do its work with orch without being taught: a fixed policy, which needs no model and knows
// only what its client sees, solves tasks on real repositories over MCP, set up by `orch mcp install`, while the node is killed between
// its calls. It consists of tests. They need npm and node for one of the repositories, which is left out where those are not there.
package firsthour
