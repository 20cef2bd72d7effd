package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration formats d with its two largest units: 840ms, 3.2s, 4m05s, 3h07m, 2d04h.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = d.Abs(); {
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d/day), int(d%day/time.Hour))
	}
}

// Age formats the time since at in one unit: now, 5s, 12m, 3h, 9d.
func Age(now, at time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "-"
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Number formats n with commas between thousands: 12,345.
func Number(n int) string {
	digits := strconv.Itoa(n)
	first := len(digits) % 3
	if first == 0 || digits[:first] == "-" {
		first += 3
	}
	var b strings.Builder
	for i, d := range digits {
		if i >= first && (i-first)%3 == 0 && i < len(digits) {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Plural returns "1 task" or "2,000 tasks".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// Field is a name and its value in a JSON object.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Fields returns the fields of a JSON object in the order of the text. ok is false if raw is not an object.
func Fields(raw json.RawMessage) (fields []Field, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		name, isText := key.(string)
		var value json.RawMessage
		if err != nil || !isText || dec.Decode(&value) != nil {
			return nil, false
		}
		fields = append(fields, Field{name, value})
	}
	return fields, true
}

// Value formats a JSON value for people: a string without quotes, any other value as compact JSON. The result is escaped,
// except for line breaks in strings.
func Value(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return EscapeLines(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return Escape(string(raw))
	}
	return Escape(compact.String())
}

// Object formats a JSON object as lines "name: value". A value of several lines follows on indented lines. Object formats
// any other JSON value like Value.
func Object(raw json.RawMessage) []string {
	fields, ok := Fields(raw)
	if !ok {
		return strings.Split(Value(raw), "\n")
	}
	var lines []string
	for _, f := range fields {
		value := strings.TrimRight(Value(f.Value), "\n")
		name := Escape(f.Name) + ":"
		if !strings.Contains(value, "\n") {
			lines = append(lines, strings.TrimRight(name+" "+value, " "))
			continue
		}
		lines = append(lines, name)
		for line := range strings.SplitSeq(value, "\n") {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}
