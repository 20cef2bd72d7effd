// Package bus is the storage on NATS: the embedded server, the log of commits on JetStream and its side stores. Requests
// between faces, workers and the node are in package rpc. Only these two packages know NATS.
//
// Guarantees:
//
//   - A data directory has one server. It locks the directory before anything else; a second process gets
//     CONFLICT with the process id and the address of the first.
//   - An acknowledged append is in the log, as durable as the level promises: [Fsync] survives a power
//     loss, [Relaxed] survives the death of every process and may lose the last 100 ms to a power loss.
//   - A refused append is not in the log. If an acknowledgement is lost, the log is read before the caller
//     gets an answer; if even that is impossible, the error is UNAVAILABLE with reason [OutcomeUnknown].
//   - Of two appends after the same commit one succeeds; the other gets CONFLICT.
//   - The loss of an acknowledged commit is detected: every history is a hash chain, and a high-water mark,
//     in the store and in a file beside it, records how far the log went. After a loss the log can be read
//     but refuses appends.
package bus
