package main

import "github.com/orch-dev/orch/events"

// attempts counts the attempts of the steps of a task as people do. In the log, a call that was parked to ask somebody is an
// attempt as well, although it was never made. The zero value is ready to use.
type attempts struct{ asked map[string]int }

// counted returns an event with the number of the attempt as it is shown. Events must come in the order of the log.
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
