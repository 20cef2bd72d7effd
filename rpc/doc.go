// Package rpc is the wire between the processes of a node: faces and workers elsewhere ask it over its NATS server.
//
//   - [Serve] answers requests at a subject, [Call] makes them. [Handle] makes a method of a function on decoded values.
//   - [Remote] is a node elsewhere: the API of package api, the owner that workers report to, and its stores.
//   - [ServeAPI], [ServeOwner], [ServeAgents], [ServeTokens], [ServeIdentities] and [ServeAgentDispatcher] are the other side.
//   - [DialTunnel] and [ListenTunnel] carry connections of HTTP between the nodes of a cluster.
//
// What it promises:
//
//   - Who acts is the credential of the connection, and never what the request says.
//   - An error arrives as it was returned, without its cause and without secrets.
//   - A request after which nobody knows whether it was done has the reason [bus.OutcomeUnknown]. It is made again, at the node that is
//     active by then, where that is harmless, see api.Repeat.
//   - A node whose lease is lost answers nothing.
package rpc
