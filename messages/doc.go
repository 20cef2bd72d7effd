// Package messages implements messaging between agents and people: addresses, message envelopes, inboxes with
// acknowledgement, and groups (the Sartor network behind the S3 rules).
//
// The package does not know how messages are stored. A Service makes decisions, a Store stores records in one total
// order, and a Projection is the fold of the records. A projection contains heads without payloads, so that its size is
// bounded. A message to a group or to all is one record, however many agents read it. An agent that was offline, or
// that did not exist yet, can read the message until it expires.
package messages
