// The list of tasks: its filters, which are the query of the address, and its rows.
import { useEffect, useState } from 'preact/hooks'
import type { ListReply, Summary, TaskState } from './api.ts'
import { aborted, Fault, get, knowTime } from './client.ts'
import { nodeTime } from './clock.ts'
import { taskStates } from './fold.ts'
import { matches } from './format.ts'
import { epoch, onTasks } from './node.ts'
import { unknownIn, type Wrong } from './refused.ts'

export interface Filters {
  states: TaskState[]
  name: string
  labels: string[]
  requestor: string
  session: string
  parent: string
  since: string
  dead: boolean
  /** sort is a column, with a - before it for downward; '' is the newest first. */
  sort: string
}

export type Column = 'state' | 'name' | 'submitter' | 'reason' | 'changed'

/** filtersOf reads the filters of an address. */
export function filtersOf(q: URLSearchParams): Filters {
  const one = (name: string): string => q.get(name) ?? ''
  return {
    states: q.getAll('state').filter((s): s is TaskState => (taskStates as readonly string[]).includes(s)), name: one('name'), labels: q.getAll('label'), requestor: one('requestor'), session: one('session'),
    parent: one('parent'), since: one('since'), dead: one('dead') === 'true', sort: one('sort'),
  }
}

/** globOf makes a name without a wildcard a part of a name. */
export const globOf = (name: string): string => (name === '' || /[*?[]/.test(name) ? name : `*${name}*`)

/** isTaskID reports whether a text is the whole id of a task. */
export const isTaskID = (text: string): boolean => /^TASK_[0-9A-Z]{26}$/.test(text)

const byWord = (a = '', b = ''): number => (a < b ? -1 : a > b ? 1 : 0)

const orders: Partial<Record<Column, (a: Summary, b: Summary) => number>> = {
  state: (a, b) => taskStates.indexOf(a.state) - taskStates.indexOf(b.state),
  name: (a, b) => byWord(a.name, b.name), submitter: (a, b) => byWord(a.requestor, b.requestor), changed: (a, b) => byWord(a.updated_at, b.updated_at),
}

/** sorted returns tasks in the order of a column. Those that are equal stay as they are. */
export function sorted(list: Summary[], sort: string): Summary[] {
  const down = sort.startsWith('-')
  const order = orders[(down ? sort.slice(1) : sort) as Column]
  return order ? [...list].sort((a, b) => (down ? order(b, a) : order(a, b))) : list
}

const ages: Record<string, number> = { '1h': 3600e3, '24h': 24 * 3600e3, '7d': 7 * 24 * 3600e3 }
export const sinceChoices = Object.keys(ages)

const columns: readonly string[] = ['state', 'name', 'submitter', 'changed']

/** wrongOf returns what is wrong with the filters of an address. They are refused as a whole: a list without one of them would be another list. */
export function wrongOf(q: URLSearchParams): Wrong[] {
  return unknownIn(q, { state: taskStates, since: sinceChoices, dead: ['true', 'false'], sort: columns.flatMap((c) => [c, '-' + c]) })
}

const pageSize = 1000
/** atOnce is how many tasks are read without being asked for. With more, the node filters by state as well. */
const atOnce = 10_000

export interface TaskList { rows: Summary[]; more: boolean; problem: unknown; reading: boolean; next: () => void }

/** useTasks reads the tasks that match, the newest first, and keeps them current. states count only if there are too many tasks. */
export function useTasks(f: Filters): TaskList {
  const [rows, setRows] = useState<Summary[]>([])
  const [cursor, setCursor] = useState('')
  const [limit, setLimit] = useState(atOnce)
  const [reading, setReading] = useState(true)
  const [problem, setProblem] = useState<unknown>()
  const narrow = cursor !== '' || limit > atOnce ? f.states : []
  const key = JSON.stringify({ ...f, states: narrow, sort: '' })
  useEffect(() => {
    const abort = new AbortController()
    setReading(true)
    read(f, narrow, limit, abort.signal, setRows)
      .then((next) => { setCursor(next); setProblem(undefined) }, (e: unknown) => {
        if (aborted(e)) return
        setProblem(e)
        if (e instanceof Fault && e.status === 400) setRows([]) // the rows of the filters before are not those that were asked for
      })
      .finally(() => { if (!abort.signal.aborted) setReading(false) })
    return () => abort.abort()
  }, [key, limit, epoch.value])
  useEffect(() => onTasks((changed) => setRows((have) => merge(have, changed, f))), [key])
  return { rows, more: cursor !== '', problem, reading, next: () => { if (cursor !== '' && !reading) setLimit((l) => l + pageSize) } }
}

/** read reads page after page and shows each. It returns the cursor of the rest. */
async function read(f: Filters, states: TaskState[], limit: number, abort: AbortSignal, show: (rows: Summary[]) => void): Promise<string> {
  const rows: Summary[] = []
  let cursor = ''
  const age = ages[f.since]
  if (age) await knowTime(abort)
  do {
    const page = await get<ListReply>('/tasks', {
      state: states, name: globOf(f.name), label: f.labels, requestor: f.requestor, session: f.session, parent: f.parent, dead: f.dead,
      since: age ? new Date(nodeTime() - age).toISOString() : undefined, limit: pageSize, cursor,
    }, abort)
    rows.push(...(page.tasks ?? []))
    show([...rows])
    cursor = page.next ?? ''
  } while (cursor !== '' && rows.length < limit)
  return cursor
}

/** merge puts changed tasks into the rows: new ones first, those that no longer match out. */
function merge(have: Summary[], changed: Summary[], f: Filters): Summary[] {
  const latest = new Map(changed.map((t) => [t.id, t]))
  const kept = have.map((t) => latest.get(t.id) ?? t).filter((t) => !latest.has(t.id) || fits(t, f))
  const known = new Set(have.map((t) => t.id))
  const fresh = [...latest.values()].filter((t) => !known.has(t.id) && fits(t, f)).sort((a, b) => (a.id < b.id ? 1 : -1))
  return [...fresh, ...kept]
}

/** fits reports whether a task matches the filters apart from its state. */
export function fits(t: Summary, f: Filters): boolean {
  if (f.name ? !matches(globOf(f.name), t.name) : t.name.startsWith('orch/')) return false
  if (f.requestor && t.requestor !== f.requestor) return false
  if (f.session && t.session !== f.session) return false
  if (f.parent && t.parent !== f.parent) return false
  if (f.dead && !(t.state === 'FAILED' || (t.state === 'BLOCKED' && t.block !== 'dependency'))) return false
  return f.labels.every((l) => labelled(t, l))
}

function labelled(t: Summary, label: string): boolean {
  const [name = '', ...value] = label.split('=')
  return t.labels?.[name] === value.join('=')
}
