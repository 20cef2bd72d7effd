package plan

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxDuration bounds every duration of a plan, so that sums of durations never overflow.
const maxDuration = 3650 * 24 * time.Hour

var errTrailing = errors.New("more than one JSON value")

// Duration is a positive time span, written in Go syntax plus "d" for 24 hours: 90s, 1d12h.
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns d in Go syntax.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d in Go syntax.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDuration reads a duration; it must be positive and at most ten years long. The error names the violated
// condition.
func ParseDuration(s string) (Duration, error) {
	days, rest := 0.0, s
	if head, tail, found := strings.Cut(s, "d"); found {
		n, err := strconv.ParseFloat(head, 64)
		if err != nil || !(n >= 0 && n <= maxDuration.Hours()/24) {
			return 0, durationError(s)
		}
		days, rest = n, tail
	}
	d := time.Duration(days * float64(24*time.Hour))
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more > maxDuration || more < 0 {
			return 0, durationError(s)
		}
		d += more
	}
	if s == "" || d > maxDuration {
		return 0, durationError(s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("the duration %q is not between 1ns and 3650d", s)
	}
	return Duration(d), nil
}

// durationForm matches unsigned durations of any length.
var durationForm = regexp.MustCompile(`^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+$`)

// durationError returns the error for a string that ParseDuration rejects: no duration, a negative one, or one that is
// too long.
func durationError(s string) error {
	text, negative := strings.CutPrefix(s, "-")
	switch {
	case !durationForm.MatchString(text) || strings.LastIndexByte(text, 'd') > strings.IndexAny(text, "nuµμmshd"):
		return fmt.Errorf("%q is not a duration", s)
	case negative:
		return fmt.Errorf("the duration %q is negative", s)
	default:
		return fmt.Errorf("the duration %q is longer than 3650d, the longest there can be", s)
	}
}
