// Package firsthour shows that an agent can do its work with orch without being taught: a fixed policy, which needs no model, solves
// tasks on real repositories over MCP, while the node is killed between its calls. It consists of tests.
package firsthour
