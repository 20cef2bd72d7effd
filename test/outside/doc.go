// Package outside shows that a node keeps its promises with the MCP servers of others: those that do what they should,
// those that do what they can to hurt it, and those that change, crash or go on while the node is not there. It consists
// of tests.
package outside
