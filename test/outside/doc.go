// Package outside tests a node with outside MCP servers: well-behaved ones, hostile ones, and ones that change, crash,
// or continue while the node is down. It contains only tests.
package outside
