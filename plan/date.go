package plan

import (
	"fmt"
	"time"
)

// date parses a time. With a Go layout it returns the time formatted, in UTC or in a zone such as Europe/Zurich:
// date(t), date(t, "2006-01-02"), date(t, "15:04", "Europe/Zurich"). t is a time, an RFC 3339 string, or a day such as
// 2026-11-23.
func date(args ...any) (any, error) {
	if len(args) < 1 || len(args) > 3 {
		return nil, fmt.Errorf("date takes a time, a layout and a zone, not %d arguments", len(args))
	}
	at, err := parseTime(args[0])
	if err != nil || len(args) == 1 {
		return at, err
	}
	layout, ok := args[1].(string)
	if !ok {
		return nil, fmt.Errorf("the layout of date is a text such as 2006-01-02, not %T", args[1])
	}
	zone := time.UTC
	if len(args) == 3 {
		name, _ := args[2].(string)
		if zone, err = time.LoadLocation(name); err != nil || name == "" || name == "Local" {
			return nil, fmt.Errorf("there is no time zone %q; one is UTC or Europe/Zurich", args[2])
		}
	}
	return at.In(zone).Format(layout), nil
}

func parseTime(v any) (time.Time, error) {
	if at, ok := v.(time.Time); ok {
		return at, nil
	}
	text, ok := v.(string)
	if !ok {
		return time.Time{}, fmt.Errorf("date takes a time as text, not %T", v)
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-11-23T02:00:00Z or 2026-11-23", text)
}
