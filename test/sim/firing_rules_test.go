package sim_test

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/schedules"
)

// instants enumerates the instants of a definition after one time and up to another, by looking at each second.
func instants(d schedules.Definition, after, upTo time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for at := after.Truncate(time.Second).UTC(); !at.After(upTo); at = at.Add(time.Second) {
			if at.After(after) && names(d, at) && !yield(at) {
				return
			}
		}
	}
}

// names reports whether the rules of a definition name an instant. It knows intervals, and the minutes of cron expressions.
func names(d schedules.Definition, at time.Time) bool {
	if d.Until != nil && at.After(*d.Until) || at.Nanosecond() != 0 {
		return false
	}
	for _, i := range d.Interval {
		if (at.Unix()-int64(i.Offset.Std()/time.Second))%int64(i.Every.Std()/time.Second) == 0 {
			return true
		}
	}
	return at.Second() == 0 && slices.ContainsFunc(d.Cron, func(text string) bool { return minute(text, at.Minute()) })
}

// minute reports whether an expression such as "*/2 * * * *" names a minute of every hour.
func minute(expression string, of int) bool {
	field := strings.Fields(expression)[0]
	if step, ok := strings.CutPrefix(field, "*/"); ok {
		n, err := strconv.Atoi(step)
		return err == nil && of%n == 0
	}
	return field == "*" || field == strconv.Itoa(of)
}
