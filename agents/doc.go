// Package agents implements the network of registered agents (S3 rules): their registration, their status, and the work
// that they claim.
//
// An agent is a credential with a profile. It sends heartbeats, claims calls of the tool AGENT_TASK that match it, and
// reports their results. Every call passes the checks of the node before an agent receives it. Heartbeats renew its
// lease, and its attempt is the fencing token, as for workers (package work). The log is the source of truth about
// work. This package only keeps in memory when an agent was last seen, and which calls are assigned to it.
package agents
