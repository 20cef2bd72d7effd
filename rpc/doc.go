// Package rpc implements requests over NATS. With it, a process uses a node in another process: command lines, MCP servers
// ("faces"), workers and agents.
//
//   - [Serve] answers requests at a subject, [Call] makes them. [Handle] converts a function on decoded values to a method.
//   - [Remote] is the client of a node in another process. It implements the API of package api, the work.Owner that workers
//     report to, and the stores of agents and tokens.
//   - [ServeAPI], [ServeOwner], [ServeAgents], [ServeTokens], [ServeIdentities] and [ServeAgentDispatcher] are the server side.
//   - [DialTunnel] and [ListenTunnel] carry HTTP connections between the nodes of a cluster.
//
// Guarantees:
//
//   - The actor of a request is determined by the credential of the connection, never by the request.
//   - An error of a method reaches the caller without its cause and without secrets; everything else is unchanged.
//   - If the outcome of a request is unknown and repeating it is harmless (see api.Repeat), it is repeated at the active node.
//     Otherwise it fails with the reason [bus.OutcomeUnknown].
//   - An endpoint with [EndpointConfig.BeginWithin] begins a request in time or refuses it with the reason [fault.Overloaded], and
//     ends a request that it has begun before the patience of its caller. [Remote] repeats what was refused.
//   - A node that has lost its lease answers no requests.
package rpc
