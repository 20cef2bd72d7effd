package plan

// NewTicker returns the counter of loop iterations of one evaluation.
func NewTicker() func() bool { return ticker() }
