package schedules

import "time"

// period is a time in which the offset of a zone does not change.
type period struct {
	// begin and end bound it; end is not part of it. They are zero for a period without a bound.
	begin, end time.Time
	// offset is the local time minus UTC, before that of the period before.
	offset, before time.Duration
}

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// periodAt returns the period of a zone that contains t.
func periodAt(t time.Time, zone *time.Location) period {
	t = t.In(zone)
	p := period{offset: offsetAt(t)}
	p.begin, p.end = t.ZoneBounds()
	p.before = p.offset
	if !p.begin.IsZero() {
		p.before = offsetAt(p.begin.Add(-time.Second))
	}
	return p
}

// cursor finds the periods of a zone. It remembers the last one, because most instants that follow each other share it.
type cursor struct {
	zone  *time.Location
	last  period
	valid bool
}

// at returns the period that contains t.
func (c *cursor) at(t time.Time) period {
	if p := &c.last; !c.valid || t.Before(p.begin) || !p.end.IsZero() && !t.Before(p.end) {
		c.last, c.valid = periodAt(t, c.zone), true
	}
	return c.last
}

// local returns the local time of an instant of the period, written as a time in UTC.
func (p period) local(t time.Time) time.Time { return t.UTC().Add(p.offset) }

// wholeMinute returns the first whole minute from t on.
func wholeMinute(t time.Time) time.Time {
	whole := t.Truncate(time.Minute)
	if whole.Before(t) {
		whole = whole.Add(time.Minute)
	}
	return whole
}

// after returns the first instant of the rule after t and up to end.
func (w *wall) after(t, end time.Time, zone *cursor) (time.Time, bool) {
	from := t.Add(1)
	for !from.After(end) {
		p := zone.at(from)
		if at, found := w.within(p, from, end); found {
			return at, true
		}
		if p.end.IsZero() {
			break
		}
		from = p.end
	}
	return time.Time{}, false
}

// within returns the first instant of the rule in a period, from an instant of the period on and up to end.
func (w *wall) within(p period, from, end time.Time) (time.Time, bool) {
	stop := end.Add(1)
	if !p.end.IsZero() && p.end.Before(stop) {
		stop = p.end
	}
	first := wholeMinute(p.local(from))
	if !w.hourly && !p.begin.IsZero() {
		switch {
		case p.before < p.offset && !from.After(p.begin): // a gap ends here
			skipped := p.begin.UTC().Add(p.before)
			if _, missed := w.next(wholeMinute(skipped), p.local(p.begin)); missed {
				return p.begin.UTC(), true
			}
		case p.before > p.offset: // local times are repeated here
			if repeated := wholeMinute(p.begin.UTC().Add(p.before)); repeated.After(first) {
				first = repeated
			}
		}
	}
	at, found := w.next(first, p.local(stop))
	return at.Add(-p.offset), found
}

// after returns the first instant of the interval after t.
func (i Interval) after(t time.Time) time.Time {
	every, offset := int64(i.Every), int64(i.Offset)
	passed := t.Unix()*int64(time.Second) + int64(t.Nanosecond()) - offset
	n := passed / every
	if passed < 0 && passed%every != 0 {
		n--
	}
	return time.Unix(0, (n+1)*every+offset).UTC()
}
