package schedules

import (
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// wall matches local times.
type wall struct {
	minute, hour, day, month, weekday set
	// year is nil for every year.
	year *set
	// either is set if a day that matches Day or Weekday suffices, as cron has it when both are restricted.
	either bool
	// hourly is set if the rule runs in every hour of the day.
	hourly bool
}

var macros = map[string]string{ //nolint:gochecknoglobals // a constant table
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// cronFields is the number of fields of an expression.
const cronFields = 5

// parseCron reads a cron expression.
func parseCron(text string) (*wall, *fault.Error) {
	const form = "write minute, hour, day of month, month and day of week, such as 30 2 * * mon-fri"
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, fault.New(fault.InvalidFormat, "an expression has no zone of its own").WithHint("use the field timezone")
	}
	if strings.HasPrefix(text, "@") {
		named, known := macros[strings.ToLower(text)]
		if !known {
			return nil, fault.New(fault.InvalidFormat, "%q is not known", clip(text)).
				WithHint("known are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually; for @every use interval")
		}
		text = named
	}
	fields := strings.Fields(text)
	if len(fields) == cronFields+1 {
		return nil, fault.New(fault.InvalidFormat, "%q has six fields; seconds are not supported", clip(text)).WithHint("use interval for less than a minute; %s", form)
	}
	if len(fields) != cronFields {
		return nil, fault.New(fault.InvalidFormat, "%q has %d fields instead of five", clip(text), len(fields)).WithHint("%s", form)
	}
	w := &wall{}
	for i, target := range []*set{&w.minute, &w.hour, &w.day, &w.month, &w.weekday} {
		parsed, err := []domain{minutes, hours, days, months, weekdays}[i].parse(fields[i])
		if err != nil {
			return nil, fault.New(fault.InvalidFormat, "%w", err).WithHint("%s", form)
		}
		*target = parsed
	}
	w.either = !w.day.any && !w.weekday.any
	w.hourly = w.hour.full(hours)
	return w, nil
}

// parseCalendar reads a calendar.
func parseCalendar(c Calendar) (*wall, *fault.Error) {
	w := &wall{year: &set{}}
	if c == (Calendar{}) {
		return nil, fault.New(fault.RequiredField, "names no field").WithHint("such as hour: 9")
	}
	for _, f := range []struct {
		domain
		text   Field
		usual  string
		target *set
	}{
		{minutes, c.Minute, "0", &w.minute},
		{hours, c.Hour, "0", &w.hour},
		{days, c.Day, "*", &w.day},
		{months, c.Month, "*", &w.month},
		{weekdays, c.Weekday, "*", &w.weekday},
		{years, c.Year, "*", w.year},
	} {
		text := string(f.text)
		if text == "" {
			text = f.usual
		}
		parsed, err := f.parse(text)
		if err != nil {
			return nil, fault.New(fault.InvalidFormat, "%w", err).WithField(f.name)
		}
		*f.target = parsed
	}
	if c.Year == "" {
		w.year = nil
	}
	w.hourly = w.hour.full(hours)
	return w, nil
}

// matchesDay reports whether a date matches; its month does.
func (w *wall) matchesDay(date time.Time) bool {
	day := w.day.has(date.Day()) || w.day.last && date.AddDate(0, 0, 1).Day() == 1
	weekday := w.weekday.has(int(date.Weekday()))
	if w.either {
		return day || weekday
	}
	return day && weekday
}

// next returns the first local time from at on, at a whole minute, that matches and is before end. Local times are written as
// times in UTC.
func (w *wall) next(at, end time.Time) (time.Time, bool) {
	for at.Before(end) {
		year, month, day := at.Date()
		switch {
		case w.year != nil && !w.year.has(year):
			at = time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)
		case !w.month.has(int(month)):
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !w.matchesDay(at):
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !w.hour.has(at.Hour()):
			at = time.Date(year, month, day, at.Hour()+1, 0, 0, 0, time.UTC)
		case !w.minute.has(at.Minute()):
			at = at.Add(time.Minute)
		default:
			return at, true
		}
	}
	return time.Time{}, false
}
