package plan

// NewTicker returns what counts the rounds of the loops of one evaluation.
func NewTicker() func() bool { return ticker() }
