package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field is a list of values, ranges and steps of a calendar. In JSON it is a text, a number, or an array of both.
type Field string

// UnmarshalJSON implements json.Unmarshaler.
func (f *Field) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		list = []json.RawMessage{data}
	}
	parts := make([]string, len(list))
	for i, raw := range list {
		var text string
		var n json.Number
		switch {
		case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
			parts[i] = text
		case json.Unmarshal(raw, &n) == nil && n != "":
			parts[i] = n.String()
		default:
			return errors.New("is not a text, a number or a list of them")
		}
	}
	*f = Field(strings.Join(parts, ","))
	return nil
}

// domain describes the values of a field.
type domain struct {
	name     string
	min, max int
	// names are the names of values, the first one that of the value first.
	names []string
	first int
	// last is set if "last" and "L" name the end of the month.
	last bool
}

var ( //nolint:gochecknoglobals // constant tables
	minutes  = domain{name: "minute", max: 59}
	hours    = domain{name: "hour", max: 23}
	days     = domain{name: "day", min: 1, max: 31, last: true}
	months   = domain{name: "month", min: 1, max: 12, first: 1, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}}
	weekdays = domain{name: "weekday", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
	years    = domain{name: "year", min: firstYear, max: lastYear}
)

// The years that a calendar may name.
const (
	firstYear = 1970
	lastYear  = 2199
)

// word is the number of bits of a word of a set.
const word = 64

// set is a set of values of a field.
type set struct {
	// bits has a bit for each value minus base.
	bits [(lastYear-firstYear)/word + 1]uint64
	base int
	// any is set if the field begins with a star; last if it names the last day of the month.
	any, last bool
}

func (s *set) has(v int) bool {
	v -= s.base
	return v >= 0 && v < word*len(s.bits) && s.bits[v/word]>>(v%word)&1 != 0
}

func (s *set) add(v int) {
	v -= s.base
	s.bits[v/word] |= 1 << (v % word)
}

// full reports whether s contains all values of d.
func (s *set) full(d domain) bool {
	for v := d.min; v <= d.max; v++ {
		if !s.has(v) {
			return false
		}
	}
	return true
}

// parse reads a field of a domain.
func (d domain) parse(text string) (set, error) {
	s := set{base: d.min}
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return s, fmt.Errorf("the %s is empty", d.name)
	}
	s.any = text[0] == '*' || text == "?"
	for part := range strings.SplitSeq(text, ",") {
		if err := d.add(&s, strings.TrimSpace(part)); err != nil {
			return s, err
		}
	}
	if d.name == weekdays.name && s.has(7) {
		s.add(0)
	}
	return s, nil
}

// add adds one element of a list to s.
func (d domain) add(s *set, part string) error {
	if d.last && (part == "last" || part == "l") {
		s.last = true
		return nil
	}
	values, step, stepped := strings.Cut(part, "/")
	every := 1
	if stepped {
		n, err := number(step)
		if err != nil || n < 1 || n > d.max {
			return fmt.Errorf("the %s %q has a step that is not from 1 to %d", d.name, clip(part), d.max)
		}
		every = n
	}
	low, high, err := d.span(values, stepped)
	if err != nil {
		return err
	}
	for v := low; v <= high; v += every {
		s.add(v)
	}
	return nil
}

// span reads "*", a value or a range. A value with a step reaches to the end of the domain.
func (d domain) span(values string, stepped bool) (low, high int, err error) {
	if values == "*" || values == "?" {
		return d.min, d.top(), nil
	}
	from, to, ranged := strings.Cut(values, "-")
	if ranged && (from == "" || to == "") { // such as -1
		from, ranged = values, false
	}
	if low, err = d.value(from); err != nil {
		return 0, 0, err
	}
	high = low
	switch {
	case ranged:
		if high, err = d.value(to); err != nil {
			return 0, 0, err
		}
		if d.name == weekdays.name && high == 0 && low > 0 {
			high = 7 // fri-sun
		}
	case stepped:
		high = d.top()
	}
	if high < low {
		return 0, 0, fmt.Errorf("the %s range %q ends before it begins; write two ranges", d.name, clip(values))
	}
	return low, high, nil
}

// top returns the highest value that a star means: Sunday is 0 there, and not 7 too.
func (d domain) top() int {
	if d.name == weekdays.name {
		return 6
	}
	return d.max
}

func (d domain) value(text string) (int, error) {
	if i := slices.Index(d.names, text); i >= 0 {
		return d.first + i, nil
	}
	n, err := number(text)
	if err != nil || n < d.min || n > d.max {
		return 0, fmt.Errorf("the %s %q is not from %d to %d%s", d.name, clip(text), d.min, d.max, d.alternatives())
	}
	return n, nil
}

// alternatives says which words are values, too.
func (d domain) alternatives() string {
	switch {
	case len(d.names) > 0:
		return ", or " + d.names[0] + " to " + d.names[len(d.names)-1]
	case d.last:
		return `, or "last"`
	default:
		return ""
	}
}

// number reads a number without a sign.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}
