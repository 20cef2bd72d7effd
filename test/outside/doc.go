// Package outside tests a node with external MCP servers. Some servers are well-behaved, some are hostile, and some
// change, crash, or continue while the node is down. The package contains only tests.
package outside
