// Package hooks describes incoming webhooks: the definition of a hook, the signatures of the senders that it knows, and what became
// of deliveries. It reads no clock and opens nothing.
//
// A signature covers the bytes of the body as they arrived. Verify compares in constant time, and does the same work for a hook that
// does not exist, so that neither the answer nor its time says which hooks there are.
package hooks
