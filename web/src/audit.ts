// The acts of the audit stream: the filters, which are the query of the address, and the pages that were read; without a document.
import type { Act, AuditReply } from './api.ts'
import type { Query } from './client.ts'
import { orch } from './reach.ts'
import { unknownIn, type Wrong } from './refused.ts'

/** Filters select acts, as the flags of orch audit list do. since and until are ages or times, as they were typed. */
export interface Filters { actor: string; act: string; target: string; outcome: string; since: string; until: string }

export const outcomes = ['done', 'refused', 'failed', 'unknown']

/** filtersOf reads the filters of an address. */
export function filtersOf(q: URLSearchParams): Filters {
  const one = (name: string): string => q.get(name) ?? ''
  return { actor: one('actor'), act: one('act'), target: one('target'), outcome: one('outcome'), since: one('since'), until: one('until') }
}

/** isFiltered reports whether filters leave something out. */
export const isFiltered = (f: Filters): boolean => Object.values(f).some((v) => v !== '')

/** auditList is the command that lists the same acts. */
export const auditList = (f: Filters): string => {
  const said = { ...f, since: exact(f.since), until: exact(f.until), outcome: '' }
  const flags = Object.entries(said).filter(([, value]) => value !== '').flatMap(([name, value]) => [`--${name}`, value])
  return orch('audit', 'list', ...flags, ...(f.outcome === 'refused' ? ['--refused'] : f.outcome ? ['--outcome', f.outcome] : []))
}

const spans: Record<string, number> = { s: 1000, m: 60e3, h: 3600e3, d: 24 * 3600e3 }

/** timeOf reads an age such as 24h, or a time such as 2026-11-29 or 2026-11-29T12:00:00Z: a time without a zone is in UTC. NaN for any other text. */
export function timeOf(text: string, now: number): number {
  const age = /^(\d{1,6})([smhd])$/.exec(text)
  if (age) return now - Number(age[1]) * (spans[age[2] ?? ''] ?? 0)
  const time = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/.exec(text)
  return time ? Date.parse(`${time[1]}T${time[2] ?? '00:00'}${time[3] ?? 'Z'}`) : NaN
}

/** wrongTime reports whether a text is neither empty nor a time. */
export const wrongTime = (text: string): boolean => text !== '' && Number.isNaN(timeOf(text, 0))

/** timeForms says how a time is written. */
export const timeForms = '24h, 2026-11-29 or 2026-11-29T12:00:00Z'

/** wrongOf returns what is wrong with the filters of an address. They are refused as a whole: acts without one of them would be other acts. */
export function wrongOf(q: URLSearchParams): Wrong[] {
  const times = ['since', 'until'].map((param) => ({ param, value: q.get(param) ?? '' }))
  return [
    ...unknownIn(q, { outcome: outcomes }),
    ...times.filter((t) => wrongTime(t.value)).map((t) => ({ ...t, why: `${t.param} ${t.value} is not a time such as ${timeForms}` })),
  ]
}

/** exact returns a time with its zone, because the command line takes one without for local time. Ages stay as they are. */
const exact = (text: string): string => (/^\d{4}-/.test(text) && !wrongTime(text) ? new Date(timeOf(text, 0)).toISOString() : text)

/** queryOf returns the filters as the API takes them, without a wrong time: nothing is asked then. */
export function queryOf(f: Filters, now: number): Query {
  const time = (text: string) => (text === '' || wrongTime(text) ? undefined : new Date(timeOf(text, now)).toISOString())
  return { actor: f.actor, act: f.act, target: f.target, outcome: f.outcome, since: time(f.since), until: time(f.until) }
}

/** Acts are acts, the newest first, as far as they were read. next is the before of the page with older ones, 0 at the end. */
export interface Acts { list: Act[]; next: number }

/** newer puts the newest page before what was read. What lies between them and was not read is left to the following pages. */
export function newer(have: Acts, page: AuditReply): Acts {
  const list = [...page.acts].reverse()
  const oldest = list.at(-1)?.n ?? 0
  const newest = have.list[0]?.n ?? 0
  if (!page.next || oldest > newest) return { list, next: page.next ?? 0 }
  return { list: [...list, ...have.list.filter((a) => a.n < oldest)], next: have.next }
}

/** older puts a page behind what was read. */
export const older = (have: Acts, page: AuditReply): Acts => {
  const last = have.list.at(-1)?.n ?? Infinity
  return { list: [...have.list, ...[...page.acts].reverse().filter((a) => a.n < last)], next: page.next ?? 0 }
}

/** Place is a path of the page with its query. */
export type Place = [path: string, query: Record<string, string>]

const places: Record<string, string> = { schedule: '/schedules/', hook: '/webhooks/hook/', destination: '/webhooks/destination/', approval: '/inbox/', question: '/inbox/' }

/** placeOf returns where the page shows what an act is about; undefined for nowhere. */
export function placeOf(a: Act): Place | undefined {
  const target = a.target ?? ''
  if (a.task) return [`/tasks/${a.task.id}`, a.task.rev ? { rev: String(a.task.rev) } : {}]
  if (/^TASK_\w+$/.test(target)) return [`/tasks/${target}`, {}]
  const place = places[a.act.split('.')[0] ?? '']
  return target && place && !a.act.endsWith('.delete') ? [place + encodeURIComponent(target), {}] : undefined
}
