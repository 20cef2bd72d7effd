package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration writes d with the two units that matter: 840ms, 3.2s, 4m05s, 3h07m, 2d04h.
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

// Age writes the time since at in one unit: now, 5s, 12m, 3h, 9d.
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

// Number writes n with commas between thousands: 12,345.
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

// Field is one entry of an object, in the order of its text.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Fields returns the entries of a JSON object in their order; ok is false for anything else.
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

// Value writes a JSON value for people: text without quotes, the rest as compact JSON. It is escaped
// but for the line breaks of text.
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

// Object writes an object as lines "name: value"; values of several lines follow indented. What is
// no object is written as Value does.
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
