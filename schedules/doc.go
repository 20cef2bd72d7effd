// Package schedules computes when schedules start tasks.
//
// A Spec is the definition of a schedule: cron expressions, intervals and calendars, in a time zone. Compile checks it and returns
// a Timetable, which computes instants and reads no clock. A rule that names a time of the day runs once for each local time that
// it names: in a gap of the zone, right after the gap; in a repeated hour, the first time. A rule that runs in every hour follows
// the elapsed time instead: in a repeated hour it runs twice, and a gap has nothing to make up.
package schedules
