package crash

import (
	"fmt"
	"slices"
)

// The kinds of database writes of the test.
const (
	// Counter is a transaction that increments both the sum and the counter with the name of the write.
	Counter = "counter"
	// List is a push to a list of the Realtime Database, Documents an insert into a collection of Firestore.
	List      = "list"
	Documents = "documents"
)

// DatabaseWrite is a write and its outcome, as far as the client knows it.
type DatabaseWrite struct {
	// Name is unique. Kind is Counter, List or Documents.
	Name, Kind string
	Round      int
	// Answered is true when the write was acknowledged. A write without acknowledgement may have happened or not.
	Answered bool
}

// DatabaseContent is the content of the databases.
type DatabaseContent struct {
	// Sum is the total count, By the count by name.
	Sum int
	By  map[string]int
	// List and Documents are the names of the pushed entries, by key.
	List, Documents map[string]string
}

// CheckDatabase compares the content of the databases with the writes (I16). An acknowledged write must be present
// once, a write without acknowledgement at most once. Sum must equal the sum of the counts in By.
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

// SubscriptionLog contains the keys of a list that a session received from one subscription.
type SubscriptionLog struct {
	ID string
	// Initial are the keys at the start of the subscription. Received are the keys of its events, in order.
	Initial, Received []string
	// Ended is true when the session was notified that the subscription has ended.
	Ended bool
}

// CheckSubscriptions compares the keys that sessions received with the final list (I17). Keys sort in the order of the
// writes. A subscription must receive each key once, in order and without gaps, until its session is notified of the
// end.
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
		keys := slices.Concat(initial, h.Received)
		for i := 1; i < len(keys); i++ {
			if keys[i] <= keys[i-1] {
				violate("the subscription %s heard of %s after %s", h.ID, keys[i], keys[i-1])
			}
		}
		expected := all
		if n := len(keys); h.Ended && n > 0 {
			upTo, _ := slices.BinarySearch(all, keys[n-1])
			expected = all[:min(upTo+1, len(all))]
		} else if h.Ended {
			expected = nil
		}
		received := map[string]bool{}
		for _, key := range keys {
			received[key] = true
			if list[key] == "" {
				violate("the subscription %s heard of %s, which is not there", h.ID, key)
			}
		}
		for _, key := range expected {
			if !received[key] {
				violate("the subscription %s never heard of %s", h.ID, key)
			}
		}
	}
	return found
}
