// Package bus stores the data of a node on NATS: it has the embedded server, the log of commits on JetStream and the stores
// beside the log. Requests between interfaces for clients, workers and the node are in package rpc. No other package uses NATS.
//
// Guarantees:
//
//   - A data directory has at most one server. The server locks the directory before anything else; a second process gets
//     CONFLICT with the process id and the address of the first.
//   - An acknowledged append is in the log. With [Fsync] it survives a power loss. With [Relaxed] it survives the
//     death of every process, but a power loss may lose the appends of the last 100 ms.
//   - A refused append is not in the log. If an acknowledgement is lost, the store reads the log to learn the outcome;
//     if that is impossible too, the error is UNAVAILABLE with reason [OutcomeUnknown].
//   - An append that finds no place among those in flight for some seconds is refused with reason [fault.Overloaded].
//   - Of two appends after the same commit one succeeds; the other gets CONFLICT.
//   - The loss of an acknowledged commit is detected: every history is a hash chain, and a high-water mark,
//     in the store and in a file beside it, records the newest commit. After a loss the log is read-only.
package bus
