// Package agents is the network of registered agents (seed 003): who they are, how they are, and the work that they
// take.
//
// An agent is a credential with a profile. It sends heartbeats, claims calls of the tool AGENT_TASK that are for agents
// like it, and reports how they ended. A call passes every gate of the node before an agent hears of it; its lease is
// renewed by the heartbeats, and its attempt is the fence, as for workers (package work). Nothing here is the truth about
// work: that is the log. What is kept in memory is how lately an agent was heard of, and what it was given.
package agents
