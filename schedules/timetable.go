package schedules

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"strconv"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Timetable is a checked Spec. It is safe for concurrent use.
type Timetable struct {
	spec  Spec
	zone  *time.Location
	walls []*wall
}

// search is how far ahead a rule is searched for its next instant: a 29th of February on a given weekday can be 40 years away.
const search = 50 * 365 * 24 * time.Hour

// Compile checks a definition. Its errors are VALIDATION_ERROR, REQUIRED_FIELD and INVALID_FORMAT, and name the field.
func Compile(s Spec) (*Timetable, error) {
	t := &Timetable{spec: s}
	if err := t.compile(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Timetable) compile() *fault.Error {
	if rules := len(t.spec.Cron) + len(t.spec.Interval) + len(t.spec.Calendar); rules == 0 {
		return fault.New(fault.RequiredField, "a schedule needs cron, interval or calendar").WithField("cron").WithHint("such as cron: 30 2 * * *")
	} else if rules > MaxRules {
		return fault.New(fault.ValidationError, "there are %d rules; the limit is %d", rules, MaxRules).WithField("cron")
	}
	if err := t.setZone(); err != nil {
		return err
	}
	if err := t.spec.checkSettings(); err != nil {
		return err
	}
	for i, text := range t.spec.Cron {
		w, err := parseCron(text)
		if err := t.add(w, err, at("cron", i)); err != nil {
			return err
		}
	}
	for i, c := range t.spec.Calendar {
		w, err := parseCalendar(c)
		if err := t.add(w, err, at("calendar", i)); err != nil {
			return err
		}
	}
	return nil
}

func at(field string, i int) string { return field + "." + strconv.Itoa(i) }

// add adds a rule. A rule that never fires is an error.
func (t *Timetable) add(w *wall, err *fault.Error, field string) *fault.Error {
	if err != nil {
		if err.Field != "" {
			field += "." + err.Field
		}
		return err.WithField(field)
	}
	from := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, ever := w.next(from, from.AddDate(lastYear-firstYear+1, 0, 0)); !ever {
		return fault.New(fault.ValidationError, "never fires").WithField(field).WithHint("no date matches all its fields")
	}
	t.walls = append(t.walls, w)
	return nil
}

func (t *Timetable) setZone() *fault.Error {
	name := t.spec.Timezone
	if name == "Local" {
		name = "the zone of the machine" // it differs between the nodes of a cluster
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return fault.New(fault.InvalidFormat, "%q is not a time zone", clip(t.spec.Timezone)).WithField("timezone").WithHint("such as UTC, Europe/Berlin or America/New_York")
	}
	t.zone = zone
	return nil
}

func (s *Spec) checkSettings() *fault.Error {
	if err := s.Overlap.check(); err != nil {
		return err
	}
	if s.Jitter.Std() > MaxJitter {
		return fault.New(fault.ValidationError, "%s is more than %s", s.Jitter, MaxJitter).WithField("jitter")
	}
	if err := checkYear(s.From, "from"); err != nil {
		return err
	}
	if err := checkYear(s.Until, "until"); err != nil {
		return err
	}
	if s.From != nil && s.Until != nil && s.Until.Before(*s.From) {
		return fault.New(fault.ValidationError, "is before from").WithField("until")
	}
	for i, one := range s.Interval {
		switch {
		case one.Every.Std() < MinInterval:
			return fault.New(fault.ValidationError, "must be at least %s", MinInterval).WithField(at("interval", i) + ".every")
		case one.Offset >= one.Every:
			return fault.New(fault.ValidationError, "must be less than every").WithField(at("interval", i) + ".offset")
		}
	}
	return nil
}

// checkYear checks that a calendar may name the year of a time. Instants are counted in nanoseconds, which end in 2262.
func checkYear(at *time.Time, field string) *fault.Error {
	if at == nil || at.Year() >= firstYear && at.Year() <= lastYear {
		return nil
	}
	return fault.New(fault.ValidationError, "is not in the years %d to %d", firstYear, lastYear).WithField(field)
}

// Spec returns the definition.
func (t *Timetable) Spec() Spec { return t.spec }

// Zone returns the time zone.
func (t *Timetable) Zone() *time.Location { return t.zone }

// Next returns the first instant after a time, in UTC; false if there is none within fifty years after it and after Spec.From.
func (t *Timetable) Next(after time.Time) (time.Time, bool) {
	begin := after
	if t.spec.From != nil && t.spec.From.After(begin) {
		begin = *t.spec.From
	}
	return t.upTo(&cursor{zone: t.zone}, after, begin.Add(search))
}

// Between returns the instants after one time and up to another, in order.
func (t *Timetable) Between(after, upTo time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		zone := &cursor{zone: t.zone}
		for at, found := t.upTo(zone, after, upTo); found; at, found = t.upTo(zone, at, upTo) {
			if !yield(at) {
				return
			}
		}
	}
}

// upTo returns the first instant after a time and up to another.
func (t *Timetable) upTo(zone *cursor, after, end time.Time) (first time.Time, found bool) {
	if t.spec.From != nil && after.Before(*t.spec.From) {
		after = t.spec.From.Add(-1)
	}
	if t.spec.Until != nil && t.spec.Until.Before(end) {
		end = *t.spec.Until
	}
	for _, i := range t.spec.Interval {
		if at := i.after(after); !at.After(end) {
			end, first, found = at, at, true
		}
	}
	for _, w := range t.walls {
		if at, ok := w.after(after, end, zone); ok {
			end, first, found = at, at, true
		}
	}
	return first, found
}

// Delay returns the jitter of a firing: less than Spec.Jitter, and less than the time until the next instant, so that firings keep
// their order. It is the same for the same id and instant.
func (t *Timetable) Delay(id string, instant time.Time) time.Duration {
	limit := t.spec.Jitter.Std()
	if limit <= 0 {
		return 0
	}
	if next, found := t.upTo(&cursor{zone: t.zone}, instant, instant.Add(limit)); found {
		limit = min(limit, next.Sub(instant))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(instant.UnixNano())))
	return time.Duration(mix(h.Sum64()) % uint64(limit)) //nolint:gosec // less than limit
}

// mix spreads the bits of a hash: those of FNV differ little for inputs that differ in their last bytes.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
