package schedules

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Duration is a time span, written in Go syntax plus "d" for 24 hours: 90s, 1d12h.
type Duration time.Duration

// maxDuration bounds every duration of a definition.
const maxDuration = 3650 * 24 * time.Hour

var daysForm = regexp.MustCompile(`^(\d{1,5})d(.*)$`)

// ParseDuration reads a duration from 0 to ten years.
func ParseDuration(text string) (Duration, error) {
	days, rest := 0, text
	if m := daysForm.FindStringSubmatch(text); m != nil {
		days, _ = strconv.Atoi(m[1]) // at most five digits
		rest = m[2]
	}
	d := time.Duration(days) * 24 * time.Hour
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 15m or 1d12h", clip(text))
		}
		d += min(max(more, -1), maxDuration+1)
	}
	if d < 0 || d > maxDuration {
		return 0, fmt.Errorf("%q is not between 0 and ten years", clip(text))
	}
	if text == "" {
		return 0, errors.New("is empty")
	}
	return Duration(d), nil
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns d in Go syntax.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON implements json.Unmarshaler. The number 0 needs no unit.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "0" {
		*d = 0
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return errors.New("is not a duration such as 90s, 15m or 1d12h")
	}
	parsed, err := ParseDuration(text)
	*d = parsed
	return err
}

// maxClip is the length from which texts in messages are clipped.
const maxClip = 60

// clip shortens a text for a message.
func clip(text string) string { return fault.Clip(text, maxClip) }
