// Package receiver receives the deliveries of hooks: it verifies their signatures, and submits or signals tasks.
//
// A task is submitted with an idempotency key that contains the id of the delivery, and a signal carries the same key. So a delivery
// that is repeated, because its answer was lost or the node has ended, does nothing twice. Only what is durable is acknowledged.
//
// Definitions, pauses and the last deliveries of each hook are in a journal. Requests without a valid signature leave nothing behind
// but a number in memory. Secrets are not in the journal.
package receiver
