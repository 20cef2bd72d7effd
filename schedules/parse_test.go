package schedules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

func TestParse(t *testing.T) {
	t.Parallel()
	d, err := schedules.Parse([]byte(`
plan: report.yaml
inputs: {region: north}
cron: 30 2 * * mon-fri
interval: [90m, {every: 1d12h, offset: 5m}]
calendar: {weekday: mon, day: 1-7, hour: [9, "14-16"], minute: 30}
timezone: Europe/Berlin
from: 2026-01-01T00:00:00Z
jitter: 30s
overlap: buffer_one
catch_up: 0s
note: the report of the week
`))
	require.NoError(t, err)
	require.JSONEq(t, `"report.yaml"`, string(d.Plan))
	require.JSONEq(t, `{"region":"north"}`, string(d.Inputs))
	require.Equal(t, []string{"30 2 * * mon-fri"}, d.Cron)
	require.Equal(t, []schedules.Interval{
		{Every: schedules.Duration(90 * time.Minute)}, {Every: schedules.Duration(36 * time.Hour), Offset: schedules.Duration(5 * time.Minute)},
	}, d.Interval)
	require.Equal(t, []schedules.Calendar{{Weekday: "mon", Day: "1-7", Hour: "9,14-16", Minute: "30"}}, d.Calendar)
	require.Equal(t, schedules.BufferOne, d.OverlapPolicy())
	require.Zero(t, d.CatchUpWindow())
	require.Equal(t, "the report of the week", d.Note)

	data, err := json.Marshal(d)
	require.NoError(t, err)
	again, err := schedules.Parse(data)
	require.NoError(t, err)
	require.Equal(t, d, again)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	d, err := schedules.Parse([]byte(`cron: "@daily"`))
	require.NoError(t, err)
	require.Equal(t, schedules.Skip, d.OverlapPolicy())
	require.Equal(t, schedules.DefaultCatchUp, d.CatchUpWindow())
}

func TestParseNamesTheField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		code  fault.Code
		field string
	}{
		"":                                {fault.ParseError, ""},
		"[]":                              {fault.ParseError, ""},
		"a: [":                            {fault.ParseError, ""},
		"1: 2":                            {fault.ParseError, ""},
		"cron: x\ncron: y":                {fault.ParseError, ""},
		"plan: report.yaml":               {fault.RequiredField, "cron"},
		"cron: 5":                         {fault.InvalidFormat, "cron.0"},
		"cron: [x, y]":                    {fault.InvalidFormat, "cron.0"},
		"crons: '@daily'":                 {fault.InvalidParams, "crons"},
		"cron: '@daily'\n---\ncron: x":    {fault.ParseError, ""},
		"calendar: {hours: 5}":            {fault.InvalidParams, "calendar.0.hours"},
		"calendar: [{hour: 5}, 7]":        {fault.InvalidFormat, "calendar.1"},
		"calendar: {hour: {}}":            {fault.InvalidFormat, "calendar.0.hour"},
		"calendar: {hour: null}":          {fault.InvalidFormat, "calendar.0.hour"},
		"calendar: {hour: 4.5}":           {fault.InvalidFormat, "calendar.0.hour"},
		"interval: 5":                     {fault.InvalidFormat, "interval.0"},
		"interval: -5m":                   {fault.InvalidFormat, "interval.0.every"},
		"interval: {every: 99999d}":       {fault.InvalidFormat, "interval.0.every"},
		"interval: {every: 5 minutes}":    {fault.InvalidFormat, "interval.0.every"},
		"cron: '@daily'\njitter: 5":       {fault.InvalidFormat, "jitter"},
		"cron: '@daily'\njitter: ''":      {fault.InvalidFormat, "jitter"},
		"cron: '@daily'\nfrom: tomorrow":  {fault.InvalidFormat, "from"},
		"cron: '@daily'\ntimezone: [UTC]": {fault.InvalidFormat, "timezone"},
		"cron: '@daily'\nnote: " + strings.Repeat("x", schedules.MaxText): {fault.ValidationError, ""},
	} {
		_, err := schedules.Parse([]byte(text))
		require.Error(t, err, text)
		require.Equal(t, want.code, fault.From(err).Code, "%s: %s", text, err)
		require.Equal(t, want.field, fault.From(err).Field, "%s: %s", text, err)
	}
}

func TestSmallNumbers(t *testing.T) {
	t.Parallel()
	d, err := schedules.Parse([]byte("interval: 1h\ncatch_up: 0"))
	require.NoError(t, err)
	require.Zero(t, d.CatchUpWindow())
	_, err = schedules.Parse([]byte("calendar: {hour: -1}"))
	require.ErrorContains(t, err, `the hour "-1" is not from 0 to 23`)
}

// FuzzParse checks that a definition that is accepted fires in order, and is the same when it is written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"cron: 30 2 * * mon-fri", "interval: 90m", "calendar: {day: last, hour: '*/5'}", "cron: ['@daily', 1-5/2 0 L feb 7]\ntimezone: Africa/Casablanca"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := schedules.Parse([]byte(text))
		if err != nil {
			require.NotEqual(t, fault.Internal, fault.From(err).Code)
			return
		}
		table, err := schedules.Compile(d.Spec)
		require.NoError(t, err)
		at := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
		for range 20 {
			next, found := table.Next(at)
			if !found {
				break
			}
			require.True(t, next.After(at))
			at = next
		}
		data, err := json.Marshal(d)
		require.NoError(t, err)
		_, err = schedules.Parse(data)
		require.NoError(t, err, "%s", data)
	})
}
