package crash

import (
	"fmt"
	"slices"
)

// The places of the databases of the test.
const (
	// Counter is a transaction that counts one up, for the sum and for its own name, in one write.
	Counter = "counter"
	// List is a push to a list of the Realtime Database, Documents one to a collection of Firestore.
	List      = "list"
	Documents = "documents"
)

// DatabaseWrite is a write of which somebody knows what became of it.
type DatabaseWrite struct {
	// Name is that of no other write, Kind is Counter, List or Documents.
	Name, Kind string
	Round      int
	// Answered is set when its end was acknowledged. The others may have happened, or not.
	Answered bool
}

// DatabaseContent is what the databases hold.
type DatabaseContent struct {
	// Sum is what was counted in all, By what was for each name.
	Sum int
	By  map[string]int
	// List and Documents are the names of what was pushed, by key.
	List, Documents map[string]string
}

// CheckDatabase holds what the databases have against what was written (I16): what was answered is there once, what was not
// is there at most once, and the sum is that of its parts.
func CheckDatabase(writes []DatabaseWrite, b DatabaseContent) []Violation {
	var found []Violation
	violate := func(round int, format string, args ...any) {
		found = append(found, Violation{Invariant: "I16", Round: round, What: fmt.Sprintf(format, args...)})
	}
	times := map[string]map[string]int{Counter: b.By, List: countNames(b.List), Documents: countNames(b.Documents)}
	known := map[string]bool{}
	for _, d := range writes {
		known[d.Kind+" "+d.Name] = true
		switch n := times[d.Kind][d.Name]; {
		case n > 1:
			violate(d.Round, "%s %s has happened %d times", d.Kind, d.Name, n)
		case n == 0 && d.Answered:
			violate(d.Round, "%s %s was acknowledged, and is gone", d.Kind, d.Name)
		}
	}
	sum := 0
	for kind, names := range times {
		for name, n := range names {
			if kind == Counter {
				sum += n
			}
			if !known[kind+" "+name] {
				violate(0, "%s %s is there, and nobody has written it", kind, name)
			}
		}
	}
	if sum != b.Sum {
		violate(0, "the counter is %d, its parts are %d", b.Sum, sum)
	}
	return found
}

func countNames(pushed map[string]string) map[string]int {
	n := map[string]int{}
	for _, name := range pushed {
		n[name]++
	}
	return n
}

// SubscriptionLog is what a session was told of a list by one subscription.
type SubscriptionLog struct {
	ID string
	// Initial are the keys that were there when it began, Heard those of its events in their order.
	Initial, Heard []string
	// Over is set when the session was told of its end.
	Over bool
}

// CheckSubscriptions holds what sessions heard against the list at the end (I17). Keys sort by the order of the writes. A
// subscription hears of each key once, in order, without a gap, until its session is told of its end.
func CheckSubscriptions(logs []SubscriptionLog, list map[string]string) []Violation {
	var found []Violation
	violate := func(format string, args ...any) {
		found = append(found, Violation{Invariant: "I17", What: fmt.Sprintf(format, args...)})
	}
	var all []string
	for key := range list {
		all = append(all, key)
	}
	slices.Sort(all)
	for _, h := range logs {
		initial := slices.Sorted(slices.Values(h.Initial))
		told := slices.Concat(initial, h.Heard)
		for i := 1; i < len(told); i++ {
			if told[i] <= told[i-1] {
				violate("the subscription %s heard of %s after %s", h.ID, told[i], told[i-1])
			}
		}
		expected := all
		if n := len(told); h.Over && n > 0 {
			upTo, _ := slices.BinarySearch(all, told[n-1])
			expected = all[:min(upTo+1, len(all))]
		} else if h.Over {
			expected = nil
		}
		heard := map[string]bool{}
		for _, key := range told {
			heard[key] = true
			if list[key] == "" {
				violate("the subscription %s heard of %s, which is not there", h.ID, key)
			}
		}
		for _, key := range expected {
			if !heard[key] {
				violate("the subscription %s never heard of %s", h.ID, key)
			}
		}
	}
	return found
}
