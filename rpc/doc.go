// Package rpc implements requests between the processes of a node over NATS: faces and workers in other processes use a node
// over its NATS server.
//
//   - [Serve] answers requests at a subject, [Call] makes them. [Handle] converts a function on decoded values to a method.
//   - [Remote] is a node in another process: the API of package api, the owner that workers report to, and its stores.
//   - [ServeAPI], [ServeOwner], [ServeAgents], [ServeTokens], [ServeIdentities] and [ServeAgentDispatcher] are the server side.
//   - [DialTunnel] and [ListenTunnel] carry HTTP connections between the nodes of a cluster.
//
// Guarantees:
//
//   - The actor of a request is determined by the credential of the connection, never by the request.
//   - An error arrives as it was returned, without its cause and without secrets.
//   - A request with an unknown result fails with the reason [bus.OutcomeUnknown]. It is repeated at the node that is active by
//     then, if repeating it is harmless, see api.Repeat.
//   - A node that has lost its lease answers nothing.
package rpc
