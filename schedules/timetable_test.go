package schedules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

// instants returns the local times of the first n instants after a time.
func instants(t *testing.T, spec schedules.Spec, after string, n int) []string {
	t.Helper()
	table, err := schedules.Compile(spec)
	require.NoError(t, err)
	at, err := time.Parse(time.RFC3339, after)
	require.NoError(t, err)
	var all []string
	for range n {
		next, found := table.Next(at)
		if !found {
			break
		}
		all, at = append(all, next.In(table.Zone()).Format("2006-01-02T15:04:05-07:00")), next
	}
	return all
}

func cron(zone string, expressions ...string) schedules.Spec {
	return schedules.Spec{Cron: expressions, Timezone: zone}
}

// instantTest expects the local times of the first instants of a definition after a time.
type instantTest struct {
	spec  schedules.Spec
	after string
	want  []string
	// ends is set if there are no further instants.
	ends bool
}

func checkInstants(t *testing.T, tests map[string]instantTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := len(test.want)
			if test.ends {
				count++
			}
			require.Equal(t, test.want, instants(t, test.spec, test.after, count))
		})
	}
}

func TestInstantsWhereClocksAreSet(t *testing.T) {
	t.Parallel()
	checkInstants(t, map[string]instantTest{
		"a daily rule runs right after a gap": {
			spec: cron("Europe/Berlin", "30 2 * * *"), after: "2026-03-28T00:00:00Z",
			want: []string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		"several times in one gap are one run": {
			spec: cron("Europe/Berlin", "*/15 2-3 * * *"), after: "2026-03-29T00:59:00Z",
			want: []string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"},
		},
		"a daily rule runs the first time in a repeated hour": {
			spec: cron("Europe/Berlin", "30 2 * * *"), after: "2026-10-24T12:00:00Z",
			want: []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		},
		"a rule for every hour follows elapsed time in a repeated hour": {
			spec: cron("Europe/Berlin", "0 * * * *"), after: "2026-10-24T23:30:00Z",
			want: []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		},
		"a rule for every hour has nothing to make up in a gap": {
			spec: cron("Europe/Berlin", "30 0-23 * * *"), after: "2026-03-28T23:45:00Z",
			want: []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"},
		},
		"half an hour is skipped": {
			spec: cron("Australia/Lord_Howe", "15 2 * * *"), after: "2026-10-03T00:00:00Z",
			want: []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		"a day that a country left out": {
			spec: cron("Pacific/Apia", "0 9 * * *"), after: "2011-12-29T12:00:00Z",
			want: []string{"2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"},
		},
		"clocks are set at midnight": {
			spec: cron("America/Sao_Paulo", "0 0 * * *"), after: "2018-11-03T12:00:00Z",
			want: []string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
	})
}

func TestInstantsOfRules(t *testing.T) {
	t.Parallel()
	checkInstants(t, map[string]instantTest{
		"a day of cron is one of the month or of the week": {
			spec: cron("", "0 0 13 * fri"), after: "2026-02-01T00:00:00Z",
			want: []string{"2026-02-06T00:00:00+00:00", "2026-02-13T00:00:00+00:00", "2026-02-20T00:00:00+00:00"},
		},
		"a day of a calendar is both": {
			spec: schedules.Spec{Calendar: []schedules.Calendar{{Day: "13", Weekday: "fri"}}}, after: "2026-01-01T00:00:00Z",
			want: []string{"2026-02-13T00:00:00+00:00", "2026-03-13T00:00:00+00:00", "2026-11-13T00:00:00+00:00"},
		},
		"the last day of the month": {
			spec: schedules.Spec{Calendar: []schedules.Calendar{{Day: "last", Hour: "18"}}}, after: "2028-01-31T18:00:00Z",
			want: []string{"2028-02-29T18:00:00+00:00", "2028-03-31T18:00:00+00:00"},
		},
		"a calendar ends with its years": {
			spec: schedules.Spec{Calendar: []schedules.Calendar{{Year: "2026-2027", Month: "jun", Day: "1"}}}, after: "2026-01-01T00:00:00Z",
			want: []string{"2026-06-01T00:00:00+00:00", "2027-06-01T00:00:00+00:00"}, ends: true,
		},
		"weekdays by name, range and number": {
			spec: cron("", "0 0 * * fri-sun,7"), after: "2026-06-01T00:00:00Z",
			want: []string{"2026-06-05T00:00:00+00:00", "2026-06-06T00:00:00+00:00", "2026-06-07T00:00:00+00:00", "2026-06-12T00:00:00+00:00"},
		},
		"a leap day on a Monday is years away": {
			spec: schedules.Spec{Calendar: []schedules.Calendar{{Month: "2", Day: "29", Weekday: "mon"}}}, after: "2026-01-01T00:00:00Z",
			want: []string{"2044-02-29T00:00:00+00:00", "2072-02-29T00:00:00+00:00"},
		},
		"an interval counts from 1970": {
			spec: schedules.Spec{Interval: []schedules.Interval{{Every: schedules.Duration(90 * time.Second), Offset: schedules.Duration(time.Second)}}}, after: "2026-01-01T00:00:00Z",
			want: []string{"2026-01-01T00:00:01+00:00", "2026-01-01T00:01:31+00:00"},
		},
		"an interval before 1970": {
			spec: schedules.Spec{Interval: []schedules.Interval{{Every: schedules.Duration(time.Hour)}}}, after: "1969-12-31T22:30:00Z",
			want: []string{"1969-12-31T23:00:00+00:00", "1970-01-01T00:00:00+00:00"},
		},
		"rules that name one instant fire once": {
			spec: cron("", "0 0 * * *", "@daily", "0 12 * * *"), after: "2026-01-01T00:00:00Z",
			want: []string{"2026-01-01T12:00:00+00:00", "2026-01-02T00:00:00+00:00"},
		},
		"from and until are included": {
			spec: schedules.Spec{Cron: []string{"0 * * * *"}, From: day(1, 2), Until: day(1, 3)}, after: "2026-01-01T00:00:00Z",
			want: []string{"2026-01-01T02:00:00+00:00", "2026-01-01T03:00:00+00:00"}, ends: true,
		},
	})
}

func day(day, hour int) *time.Time {
	at := time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC)
	return &at
}

func TestCompileNamesTheField(t *testing.T) {
	t.Parallel()
	hour := schedules.Duration(time.Hour)
	for name, test := range map[string]struct {
		spec  schedules.Spec
		code  fault.Code
		field string
	}{
		"nothing":            {schedules.Spec{}, fault.RequiredField, "cron"},
		"a zone":             {cron("Berlin", "0 0 * * *"), fault.InvalidFormat, "timezone"},
		"the local zone":     {cron("Local", "0 0 * * *"), fault.InvalidFormat, "timezone"},
		"four fields":        {cron("", "0 0 * *"), fault.InvalidFormat, "cron.0"},
		"six fields":         {cron("", "@daily", "0 0 0 * * *"), fault.InvalidFormat, "cron.1"},
		"a minute":           {cron("", "60 * * * *"), fault.InvalidFormat, "cron.0"},
		"a sign":             {cron("", "+5 * * * *"), fault.InvalidFormat, "cron.0"},
		"a day of the month": {cron("", "0 0 0 * *"), fault.InvalidFormat, "cron.0"},
		"a step of 0":        {cron("", "*/0 * * * *"), fault.InvalidFormat, "cron.0"},
		"a range backwards":  {cron("", "0 22-2 * * *"), fault.InvalidFormat, "cron.0"},
		"an open range":      {cron("", "0 5- * * *"), fault.InvalidFormat, "cron.0"},
		"an empty element":   {cron("", "0,, * * * *"), fault.InvalidFormat, "cron.0"},
		"a name":             {cron("", "@noon"), fault.InvalidFormat, "cron.0"},
		"a zone inside":      {cron("", "CRON_TZ=UTC 0 0 * * *"), fault.InvalidFormat, "cron.0"},
		"no such date":       {cron("", "0 0 30 2 *"), fault.ValidationError, "cron.0"},
		"a calendar field":   {schedules.Spec{Calendar: []schedules.Calendar{{Hour: "1"}, {Hour: "24"}}}, fault.InvalidFormat, "calendar.1.hour"},
		"a year":             {schedules.Spec{Calendar: []schedules.Calendar{{Year: "1969"}}}, fault.InvalidFormat, "calendar.0.year"},
		"a short interval":   {schedules.Spec{Interval: []schedules.Interval{{}}}, fault.ValidationError, "interval.0.every"},
		"a long offset":      {schedules.Spec{Interval: []schedules.Interval{{Every: hour, Offset: hour}}}, fault.ValidationError, "interval.0.offset"},
		"an overlap":         {schedules.Spec{Cron: []string{"@daily"}, Overlap: "queue"}, fault.ValidationError, "overlap"},
		"a long jitter":      {schedules.Spec{Cron: []string{"@daily"}, Jitter: 25 * hour}, fault.ValidationError, "jitter"},
		"an empty calendar":  {schedules.Spec{Calendar: []schedules.Calendar{{}}}, fault.RequiredField, "calendar.0"},
		"a far beginning":    {schedules.Spec{Cron: []string{"@daily"}, From: new(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))}, fault.ValidationError, "from"},
		"a far end":          {schedules.Spec{Cron: []string{"@daily"}, Until: new(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC))}, fault.ValidationError, "until"},
		"until before from":  {schedules.Spec{Cron: []string{"@daily"}, From: day(2, 0), Until: day(1, 0)}, fault.ValidationError, "until"},
		"too many rules":     {schedules.Spec{Cron: slices.Repeat([]string{"@daily"}, schedules.MaxRules+1)}, fault.ValidationError, "cron"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schedules.Compile(test.spec)
			require.Error(t, err)
			require.Equal(t, test.code, fault.From(err).Code, err)
			require.Equal(t, test.field, fault.From(err).Field, err)
		})
	}
}

func TestJitterKeepsTheOrder(t *testing.T) {
	t.Parallel()
	spec := cron("", "*/5 * * * *")
	spec.Jitter = schedules.Duration(time.Hour)
	table, err := schedules.Compile(spec)
	require.NoError(t, err)
	at, different := *day(1, 0), map[time.Duration]bool{}
	for range 500 {
		next, _ := table.Next(at)
		delay := table.Delay("nightly", next)
		require.Equal(t, delay, table.Delay("nightly", next))
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, 5*time.Minute)
		different[delay/(30*time.Second)] = true
		at = next
	}
	require.Len(t, different, 10, "the delays are spread")
	require.NotEqual(t, table.Delay("nightly", at), table.Delay("weekly", at))
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for policy, want := range map[schedules.Overlap][3]schedules.Action{ // one open task: none, one and all buffered
		schedules.Skip:        {schedules.Drop, schedules.Drop, schedules.Drop},
		schedules.BufferOne:   {schedules.Buffer, schedules.Drop, schedules.Drop},
		schedules.BufferAll:   {schedules.Buffer, schedules.Buffer, schedules.Drop},
		schedules.CancelOther: {schedules.Replace, schedules.Replace, schedules.Replace},
		schedules.AllowAll:    {schedules.Start, schedules.Start, schedules.Start},
	} {
		for i, buffered := range []int{0, 1, schedules.MaxBuffered} {
			require.Equal(t, want[i], policy.Decide(1, buffered), "%s with %d buffered", policy, buffered)
		}
		require.Equal(t, schedules.Start, policy.Decide(0, 0), policy)
	}
	require.Len(t, schedules.Overlaps(), 5)
}

// A beginning far in the future is found, and every rule stays in order there.
func TestFarBeginning(t *testing.T) {
	t.Parallel()
	from := time.Date(2199, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, spec := range []schedules.Spec{{Cron: []string{"0 12 * * *"}}, {Interval: []schedules.Interval{{Every: schedules.Duration(time.Hour)}}}} {
		spec.From = &from
		table, err := schedules.Compile(spec)
		require.NoError(t, err)
		at, found := table.Next(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
		require.True(t, found)
		require.False(t, at.Before(from))
		next, found := table.Next(at)
		require.True(t, found)
		require.True(t, next.After(at))
	}
}
