// Package network holds the tests of the network of agents as a whole: a node and agents in processes of their own, of
// which some are killed, and some hang.
package network
