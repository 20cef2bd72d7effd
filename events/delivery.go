package events

// Delivery is a request that a hook has received.
type Delivery struct {
	// Name is the name of the hook, ID the id that the sender has given the delivery.
	Name string `json:"name"`
	ID   string `json:"id"`
	// Subject is the subject of a message of a NATS stream; empty for other deliveries.
	Subject string `json:"subject,omitempty"`
	// Hops is how many deliveries of destinations have led to this one; 0 for a sender that does not say so.
	Hops int `json:"hops,omitempty"`
	// Headers are the headers that expressions may use, by their names in lower case.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the body as JSON, without secrets.
	Body Value `json:"body,omitzero"`
}
