// What schedules say of themselves in words.
import type { ScheduleSpec } from './api.ts'

/** whenText describes the rules of a schedule in one line, as the command line does. */
export function whenText(s: ScheduleSpec): string {
  const rules = [
    ...(s.cron ?? []),
    ...(s.interval ?? []).map((i) => `every ${span(i.every)}${i.offset && i.offset !== '0s' ? ` from ${span(i.offset)}` : ''}`),
    ...(s.calendar ?? []).map((c) => ['year', 'month', 'day', 'weekday', 'hour', 'minute'].filter((f) => c[f]).map((f) => `${f} ${c[f]}`).join(', ')),
  ]
  return rules.join('; ') + (s.timezone && s.timezone !== 'UTC' ? ` ${s.timezone}` : '')
}

/** span returns a duration without trailing zero units. */
const span = (d: string): string => d.replace(/m0s$/, 'm').replace(/h0m$/, 'h')
