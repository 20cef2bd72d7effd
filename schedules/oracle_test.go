package schedules_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/schedules"
)

// The oracle knows nothing of zones but what a clock on the wall shows. It looks at the clock in every minute of twenty years, and
// writes down what it reads, which readings it has seen before, and which ones it never sees.

// reading is what the clock shows in a minute.
type reading struct {
	date         uint16 // days since the first one
	hour, minute uint8
	// again is set if the clock has shown this or a later time before.
	again bool
}

// clock is a zone in twenty years, minute by minute.
type clock struct {
	zone     *time.Location
	first    time.Time
	readings []reading
	// leaps are the minutes before which the clock leaps forward, with the readings that it leaves out.
	leaps map[int][]reading
	// dates are the dates of readings.
	dates []time.Time
}

func watch(zone *time.Location, first, end time.Time) *clock {
	c := &clock{zone: zone, first: first, leaps: map[int][]reading{}}
	c.readings = make([]reading, 0, int(end.Sub(first)/time.Minute))
	origin := first.In(zone).Add(-48*time.Hour).Unix() / 86400
	for day := range int64(end.Sub(first)/(24*time.Hour)) + 5 {
		c.dates = append(c.dates, time.Unix((origin+day)*86400, 0).UTC())
	}
	read := func(shown int64) reading {
		return reading{date: uint16(shown/1440 - origin), hour: uint8(shown % 1440 / 60), minute: uint8(shown % 60)}
	}
	latest := int64(-1)
	for t := first; t.Before(end); t = t.Add(time.Minute) {
		at := t.In(zone)
		year, month, day := at.Date()
		hour, minute, _ := at.Clock()
		shown := time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix() / 60
		r := read(shown)
		r.again = latest >= 0 && shown <= latest
		for missing := latest + 1; latest >= 0 && missing < shown; missing++ {
			c.leaps[len(c.readings)] = append(c.leaps[len(c.readings)], read(missing))
		}
		latest = max(latest, shown)
		c.readings = append(c.readings, r)
	}
	return c
}

// wish is a random rule: its text, and what it means in the words of the oracle.
type wish struct {
	cron         string
	calendar     *schedules.Calendar
	interval     *schedules.Interval
	minute, hour map[int]bool
	date         func(time.Time) bool
}

// mark marks the minutes in which a rule starts something.
func (c *clock) mark(w wish, due []bool) {
	if w.interval != nil {
		for m := range c.readings {
			passed := c.first.Add(time.Duration(m)*time.Minute).Unix() - int64(w.interval.Offset.Std().Seconds())
			if passed%int64(w.interval.Every.Std().Seconds()) == 0 {
				due[m] = true
			}
		}
		return
	}
	var minute, hour [60]bool
	for v := range w.minute {
		minute[v] = true
	}
	for v := range w.hour {
		hour[v] = true
	}
	date := make([]bool, len(c.dates))
	for i, d := range c.dates {
		date[i] = w.date(d)
	}
	wanted := func(r reading) bool { return date[r.date] && hour[r.hour] && minute[r.minute] }
	everyHour := len(w.hour) == 24
	for m, r := range c.readings {
		start := wanted(r) && (everyHour || !r.again)
		if left := c.leaps[m]; left != nil && !everyHour {
			start = start || slices.ContainsFunc(left, wanted)
		}
		if start {
			due[m] = true
		}
	}
}

// some returns random values from low to high, as a text of cron and as a set.
func some(r *rand.Rand, low, high int) (string, map[int]bool) {
	in := map[int]bool{}
	pick := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(5) {
	case 0:
		for v := low; v <= high; v++ {
			in[v] = true
		}
		return "*", in
	case 1:
		step := 1 + r.IntN(high)
		for v := low; v <= high; v += step {
			in[v] = true
		}
		return "*/" + strconv.Itoa(step), in
	case 2:
		a, b := pick(), pick()
		a, b = min(a, b), max(a, b)
		step := 1 + r.IntN(4)
		for v := a; v <= b; v += step {
			in[v] = true
		}
		return fmt.Sprintf("%d-%d/%d", a, b, step), in
	case 3:
		var parts []string
		for range 1 + r.IntN(4) {
			v := pick()
			in[v] = true
			parts = append(parts, strconv.Itoa(v))
		}
		return strings.Join(parts, ","), in
	default:
		v := pick()
		in[v] = true
		return strconv.Itoa(v), in
	}
}

// everyDay says how often a random rule leaves days and months alone.
const everyDay = 2

func randomWish(r *rand.Rand) wish {
	if r.IntN(10) == 0 {
		every := 1 + r.IntN(3000)
		return wish{interval: &schedules.Interval{
			Every: schedules.Duration(time.Duration(every) * time.Minute), Offset: schedules.Duration(time.Duration(r.IntN(every)) * time.Minute),
		}}
	}
	var w wish
	var minute, hour string
	minute, w.minute = some(r, 0, 59)
	hour, w.hour = some(r, 0, 23)
	if r.IntN(3) == 0 { // where clocks are set
		hour = strconv.Itoa(r.IntN(4))
		v, _ := strconv.Atoi(hour)
		w.hour = map[int]bool{v: true}
	}
	day, days := some(r, 1, 28)
	month, months := some(r, 1, 12)
	weekday, weekdays := some(r, 0, 6)
	if r.IntN(everyDay) == 0 {
		day, month, weekday = "*", "*", "*"
	}
	anyDay, anyMonth, anyWeekday := day[0] == '*', month == "*", weekday[0] == '*'
	inMonth := func(d time.Time) bool { return anyMonth || months[int(d.Month())] }
	inDay := func(d time.Time) bool {
		return day == "*" || days[d.Day()] || strings.HasPrefix(day, "*/") && inSteps(day, d.Day())
	}
	inWeekday := func(d time.Time) bool { return weekday == "*" || weekdays[int(d.Weekday())] }
	either := !anyDay && !anyWeekday
	if r.IntN(3) == 0 {
		w.calendar, either = &schedules.Calendar{
			Minute: schedules.Field(minute), Hour: schedules.Field(hour), Day: schedules.Field(day), Month: schedules.Field(month), Weekday: schedules.Field(weekday),
		}, false
	} else {
		w.cron = strings.Join([]string{minute, hour, day, month, weekday}, " ")
	}
	w.date = func(d time.Time) bool {
		if either {
			return inMonth(d) && (inDay(d) || inWeekday(d))
		}
		return inMonth(d) && inDay(d) && inWeekday(d)
	}
	return w
}

// inSteps reports whether a star with a step names a day after the 28th.
func inSteps(field string, day int) bool {
	step, _ := strconv.Atoi(strings.TrimPrefix(field, "*/"))
	return (day-1)%step == 0
}

// TestOracle compares the instants of random schedules in twenty years and three zones with those of the oracle. With
// ORCH_SCHEDULES_ORACLE=all there are 1,000 schedules and twenty years, else a sample of both.
func TestOracle(t *testing.T) {
	t.Parallel()
	first, count, years := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC), 60, 3
	if os.Getenv("ORCH_SCHEDULES_ORACLE") == "all" {
		count, years = 1000, 20
	}
	for _, name := range []string{"Australia/Lord_Howe", "Europe/Berlin", "Africa/Casablanca"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			require.NoError(t, err)
			c := watch(zone, first, first.AddDate(years, 0, 0))
			require.NotEmpty(t, c.leaps)
			instants, missed, doubled := 0, 0, 0
			for i := range count {
				n, m, d := c.compare(t, rand.New(rand.NewPCG(uint64(i), 7)))
				instants, missed, doubled = instants+n, missed+m, doubled+d
			}
			t.Logf("%s: %d schedules, %d instants, %d missed, %d doubled", name, count, instants, missed, doubled)
			require.Zero(t, missed+doubled)
			require.NotZero(t, instants)
		})
	}
}

// compare makes a random schedule, and returns how many instants the timetable has, how many of those of the oracle it lacks, and how
// many it has that the oracle lacks.
func (c *clock) compare(t *testing.T, r *rand.Rand) (instants, missed, extra int) {
	t.Helper()
	spec := schedules.Spec{Timezone: c.zone.String()}
	due := make([]bool, len(c.readings))
	for range 1 + r.IntN(5)/4 {
		w := randomWish(r)
		switch {
		case w.interval != nil:
			spec.Interval = append(spec.Interval, *w.interval)
		case w.calendar != nil:
			spec.Calendar = append(spec.Calendar, *w.calendar)
		default:
			spec.Cron = append(spec.Cron, w.cron)
		}
		c.mark(w, due)
	}
	table, err := schedules.Compile(spec)
	require.NoError(t, err, "%+v", spec)
	end := c.first.Add(time.Duration(len(c.readings)) * time.Minute)
	previous := time.Time{}
	for at := range table.Between(c.first.Add(-1), end.Add(-1)) {
		m := int(at.Sub(c.first) / time.Minute)
		if !due[m] || !at.After(previous) || at.Second() != 0 {
			extra++
			require.Less(t, extra, 10)
			t.Errorf("%+v fires at %s, %s", spec, at, at.In(c.zone))
		}
		instants++
		due[m], previous = false, at
	}
	for m, left := range due {
		if left {
			missed++
			require.Less(t, missed, 10)
			t.Errorf("%+v does not fire at %s", spec, c.first.Add(time.Duration(m)*time.Minute).In(c.zone))
		}
	}
	return instants, missed, extra
}
