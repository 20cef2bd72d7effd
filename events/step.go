package events

// StepOf returns the key of the step that an event is about, or "" for an event that is not about a step.
func StepOf(p Payload) string {
	switch d := p.(type) {
	case *Ready:
		return d.Step
	case *Called:
		return d.Step
	case *Succeeded:
		return d.Step
	case *StepError:
		return d.Step
	case *Retrying:
		return d.Step
	case *Skipped:
		return d.Step
	case *InDoubt:
		return d.Step
	case *Resolved:
		return d.Step
	case *Expanded:
		return d.Step
	case *Divided:
		return d.Step
	case *Waiting:
		return d.Step
	case *Spawned:
		return d.Step
	case *Reused:
		return d.Step
	case *Parked:
		return d.Step
	case *Noted:
		return d.Step
	case *Agent:
		return d.Step
	case *Turn:
		return d.Step
	case *Answered:
		return d.Step
	case *LostTurn:
		return d.Step
	case *RefusedTurn:
		return d.Step
	case *Extended:
		return d.Step
	case *Told:
		return d.Step
	default:
		return ""
	}
}
