// Package sender delivers events of tasks and approvals to destinations, as signed webhooks.
//
// The log is the queue: a cursor of each destination moves along it, and what a destination wants to know waits in the journal of the
// destinations until it is delivered or a dead letter. Cursor and deliveries are one entry, so no event is left out after a crash. A
// delivery is repeated if its result was not recorded; its id, which names the place of the event in the log, stays the same.
//
// A delivery that waits is a few words about a place in the log. Its body is made again for each attempt. A destination with many of
// them takes no further ones, and the log keeps what follows. Each destination has a goroutine while something is due, so that slow
// receivers keep up nobody else.
package sender
