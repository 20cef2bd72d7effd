package work

// The ranks of the priorities of tasks, the most urgent first.
const (
	Critical = iota
	High
	Normal
	Low
	// Priorities is the number of ranks.
	Priorities
)

// Urgency returns the rank of a task's priority, 0 for the most urgent. An unknown priority is normal.
func Urgency(priority string) int {
	switch priority {
	case "critical":
		return Critical
	case "high":
		return High
	case "low":
		return Low
	default:
		return Normal
	}
}
