// Package destinations decides about outgoing webhooks, which tell other systems about tasks and approvals: what a destination wants to
// know, the body of a delivery and its signatures, and when a delivery is tried again. It has no I/O.
//
// Deliveries follow the Standard Webhooks specification. A body says what has happened, and holds no inputs and no results.
package destinations
