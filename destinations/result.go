package destinations

// Result is the result of an attempt to deliver an event.
type Result string

// The results of attempts.
const (
	Delivered Result = "delivered"
	// Failed is an attempt after which another one follows, Dead the last one.
	Failed Result = "failed"
	Dead   Result = "dead"
)

// Results returns all results.
func Results() []Result { return []Result{Delivered, Failed, Dead} }
