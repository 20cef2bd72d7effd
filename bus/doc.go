// Package bus is the storage on NATS: the embedded server, the log of commits on JetStream and its side stores. The requests
// between faces, workers and the node are in package rpc; the two are all that knows NATS.
//
// What it promises:
//
//   - One data directory has one server. A lock is taken before anything else; a second process gets
//     CONFLICT with the process id and the address of the first.
//   - An append that was answered is in the log, as durable as the level says: [Fsync] survives a power
//     loss, [Relaxed] survives the death of every process and may lose the last 100 ms to a power loss.
//   - An append that was refused is not in the log. A lost acknowledgement is settled by reading the log
//     before the caller hears of it; if even that is impossible the error is UNAVAILABLE with reason
//     [OutcomeUnknown].
//   - Two appends after the same commit have one winner; the other gets CONFLICT.
//   - What was acknowledged and is gone is noticed: every history is a hash chain, and a high-water mark
//     in the store and in a file beside it says how far the log went. After a loss the log is readable
//     and refuses to append.
package bus
