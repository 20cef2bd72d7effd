// Package network tests the network of agents as a whole: a node and agents in separate processes, some of which are
// killed and some of which hang.
package network
