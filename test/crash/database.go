package crash

import (
	"fmt"
	"slices"
)

// The kinds of database writes of the test.
const (
	// Counter is a transaction that increments the sum and the counter of its own name in one write.
	Counter = "counter"
	// List is a push to a list of the Realtime Database, Documents an insert into a collection of Firestore.
	List      = "list"
	Documents = "documents"
)

// DatabaseWrite is a write with its known outcome.
type DatabaseWrite struct {
	// Name is unique. Kind is Counter, List or Documents.
	Name, Kind string
	Round      int
	// Answered is true when the write was acknowledged. Other writes may or may not have happened.
	Answered bool
}

// DatabaseContent is the content of the databases.
type DatabaseContent struct {
	// Sum is the total count, By the count of each name.
	Sum int
	By  map[string]int
	// List and Documents are the names of the pushed entries, by key.
	List, Documents map[string]string
}

// CheckDatabase compares the content of the databases with the writes (I16): an acknowledged write is there once,
// another one at most once, and the sum equals the sum of its parts.
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

// SubscriptionLog is what a session received about a list from one subscription.
type SubscriptionLog struct {
	ID string
	// Initial are the keys at the start of the subscription, Heard the keys of its events in order.
	Initial, Received []string
	// Ended is true when the session was notified of the end.
	Ended bool
}

// CheckSubscriptions compares what sessions received with the final list (I17). Keys sort in the order of the writes. A
// subscription receives each key once, in order, without gaps, until its session is notified of the end.
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
		told := slices.Concat(initial, h.Received)
		for i := 1; i < len(told); i++ {
			if told[i] <= told[i-1] {
				violate("the subscription %s heard of %s after %s", h.ID, told[i], told[i-1])
			}
		}
		expected := all
		if n := len(told); h.Ended && n > 0 {
			upTo, _ := slices.BinarySearch(all, told[n-1])
			expected = all[:min(upTo+1, len(all))]
		} else if h.Ended {
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
