package main

import "github.com/orch-dev/orch/events"

// attempts numbers the attempts of the steps of a task for people. The log also counts attempts that were parked to ask somebody
// before the call was made; attempts leaves them out. The zero value is ready to use.
type attempts struct {
	asked map[string]int
	// values adds the arguments and results of calls to the lines of events.
	values bool
}

// counted returns an event with the number of the attempt for people. It must be called with the events in the order of the log.
func (a *attempts) counted(e events.Event) events.Event {
	switch d := e.Data.(type) {
	case *events.Parked:
		if a.asked == nil {
			a.asked = map[string]int{}
		}
		a.asked[d.Step]++
	case *events.Ready:
		shown := *d
		shown.Attempt -= a.asked[d.Step]
		e.Data = &shown
	case *events.Called:
		shown := *d
		shown.Attempt -= a.asked[d.Step]
		e.Data = &shown
	case *events.Noted:
		shown := *d
		shown.Attempt -= a.asked[d.Step]
		e.Data = &shown
	}
	return e
}
