// Package network tests the network of agents as a whole. The node and the agents run in separate processes; some are
// killed and some hang.
package network
