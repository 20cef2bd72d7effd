// Package messages is what agents and people say to each other: addresses, the envelope of a message, inboxes with
// acknowledgement, and groups (the Sartor network behind seed 003).
//
// Nothing here knows where messages are kept. A Service decides, a Store keeps records in one order for all, and a
// Projection is what the records add up to: it holds heads, never payloads, so that its size has a bound. A message to a group or to
// all is one record, whoever reads it: an agent that was away, or that did not exist yet, finds it as long as it lives.
package messages
