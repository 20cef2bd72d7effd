import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Summary, TaskState } from '../api.ts'
import { taskNow, type Act } from '../bulk.ts'
import { Fault, post } from '../client.ts'
import { commands } from '../commands.ts'
import { taskStates, terminal } from '../fold.ts'
import { count, moment, words } from '../format.ts'
import { useKeys } from '../keys.ts'
import { decides, narrow, submits } from '../node.ts'
import { go, href, keepTicks, keptTicks, query, setQuery } from '../route.ts'
import { filtersOf, isTaskID, sinceChoices, sorted, useTasks, wrongOf, type Column, type Filters } from '../tasks.ts'
import { ticked } from '../ticked.ts'
import { Bulk, type Job } from '../ui/bulk.tsx'
import { Command } from '../ui/copy.tsx'
import { FilterText } from '../ui/filter.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Refused } from '../ui/refused.tsx'
import { State } from '../ui/state.tsx'
import { Line } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useTitle } from '../ui/use.ts'
import { Virtual } from '../ui/virtual.tsx'

/** TasksPage lists tasks. Its filters are the query of its address. */
export function TasksPage() {
  useTitle('Tasks')
  const wrong = wrongOf(query.value)
  return wrong.length > 0 ? <div class="tasks"><h1>Tasks</h1><Refused of={wrong} /></div> : <List />
}

function List() {
  const f = filtersOf(query.value)
  const list = useTasks(f)
  const filters = JSON.stringify({ ...f, sort: '' })
  const [chosen, setChosen] = useTicks(filters)
  const [cursor, setCursor] = useState(-1)
  const all = !list.more && !list.reading
  const refused = list.problem instanceof Fault && list.problem.status === 400
  const rows = useMemo(
    () => sorted(f.states.length ? list.rows.filter((t) => f.states.includes(t.state)) : list.rows, all ? f.sort : ''),
    [list.rows, f.states.join(), f.sort, all],
  )
  const last = useRef('')
  const toggle = (id: string, range = false) => {
    setChosen(ticked(chosen, rows, id, range ? last.current : ''))
    last.current = id
  }
  const at = rows[cursor]
  useKeys([
    { key: 'j', does: 'Next task', run: () => setCursor((c) => Math.min(rows.length - 1, c + 1)) },
    { key: 'k', does: 'Previous task', run: () => setCursor((c) => Math.max(0, c - 1)) },
    { key: 'x', does: 'Select the task', run: () => { if (at) toggle(at.id) } },
    { key: 'Enter', does: 'Open the task', run: () => { if (at) go(href(`/tasks/${at.id}`)) } },
    { key: '/', does: 'Filter by name', run: () => document.getElementById('filter-name')?.focus() },
  ], [rows, cursor])
  return (
    <div class="tasks">
      <h1>Tasks</h1>
      <FilterBar f={f} list={list.rows} more={list.more} />
      <Problem of={list.problem} />
      <p class="quiet small sum" role="status">
        {count(rows.length)}{list.more && '+'} {rows.length === 1 ? 'task' : 'tasks'}{list.reading && ', reading…'}{refused && ': these filters are refused'}
        {submits.value && !list.reading && chosen.size < rows.length && <button type="button" class="link" onClick={() => setChosen(new Set(rows.map((t) => t.id)))}>Select all {count(rows.length)}</button>}
        {chosen.size > 0 && <button type="button" class="link" onClick={() => setChosen(new Set())}>Select none</button>}
      </p>
      {chosen.size > 0 && <BulkBar tasks={list.rows.filter((t) => chosen.has(t.id))} onDone={() => setChosen(new Set())} />}
      {rows.length > 0 && <Heads sort={f.sort} all={all} />}
      {rows.length === 0
        ? list.reading ? <Loading /> : refused ? <Empty title="Nothing is listed.">The node refuses these filters; above is why. Mend or clear them.</Empty> : <Empty title="No task matches.">Change the filters, or submit one: orch submit plan.yaml</Empty>
        : <Virtual
            items={rows} height={narrow.value ? 88 : 40} label="Tasks" class="table" id={(t) => t.id} cursor={cursor} onCursor={setCursor} end={list.next}
            row={(t) => <Entry of={t} chosen={chosen.has(t.id)} onChoose={(range) => toggle(t.id, range)} />}
          />}
    </div>
  )
}

/** useTicks are the tasks that are selected in a list. They belong to the entry of the history of the browser, so that Back brings them again; other filters have none. */
function useTicks(filters: string): [ReadonlySet<string>, (ids: ReadonlySet<string>) => void] {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(() => new Set(keptTicks(filters)))
  const of = useRef(filters)
  const set = (ids: ReadonlySet<string>) => { keepTicks(filters, [...ids]); setChosen(ids) }
  useEffect(() => {
    if (of.current !== filters) setChosen(new Set()) // what is selected is always part of the list that is shown
    of.current = filters
  }, [filters])
  return [chosen, set]
}

function Entry({ of: t, chosen, onChoose }: { of: Summary; chosen: boolean; onChoose: (range: boolean) => void }) {
  return (
    <>
      {submits.value && <input type="checkbox" checked={chosen} onClick={(e) => onChoose(e.shiftKey)} aria-label={`Select ${t.name || t.id}`} />}
      <State of={t.state} paused={t.paused} />
      <a class="cut" href={href(`/tasks/${t.id}`)} title={t.id}><Line>{t.name || t.id}</Line></a>
      <span class="who cut" data-label="Submitter"><Line>{t.requestor}</Line></span>
      <span class="why cut" data-label="Reason"><Line>{t.reason}</Line></span>
      <Ago at={t.updated_at} />
    </>
  )
}

const heads: [Column, string][] = [['state', 'State'], ['name', 'Task'], ['submitter', 'Submitter'], ['reason', 'Reason'], ['changed', 'Changed']]

/** Heads names the columns. They sort the list only if all of it has been read; otherwise the newest tasks come first. */
function Heads({ sort, all }: { sort: string; all: boolean }) {
  return (
    <div class="table heads" role="group" aria-label="Sort by column">
      {submits.value && <span />}
      {heads.map(([name, title]) => (all && name !== 'reason' ? <Head key={name} name={name} title={title} sort={sort} /> : <span key={name} class={`head of-${name}`}>{title}</span>))}
    </div>
  )
}

function Head({ name, title, sort }: { name: Column; title: string; sort: string }) {
  const at = sort === name ? 'up' : sort === '-' + name ? 'down' : ''
  const next = { '': name, up: '-' + name, down: '' }[at]
  const said = { '': '', up: ', upward', down: ', downward' }[at]
  return (
    <button type="button" class={`plain head of-${name} ${at}`} aria-pressed={at !== ''} onClick={() => setQuery({ sort: next })}>{title}<span class="hidden">{said}</span></button>
  )
}

function FilterBar({ f, list, more }: { f: Filters; list: Summary[]; more: boolean }) {
  const counts = useMemo(() => {
    const of: Partial<Record<TaskState, number>> = {}
    for (const t of list) of[t.state] = (of[t.state] ?? 0) + 1
    return of
  }, [list])
  const present = taskStates.filter((s) => counts[s] || f.states.includes(s))
  const flip = (s: TaskState) => setQuery({ state: f.states.includes(s) ? f.states.filter((o) => o !== s) : [...f.states, s] })
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
      <div class="chips" role="group" aria-label="States">
        {present.map((s) => (
          <button key={s} type="button" aria-pressed={f.states.includes(s)} onClick={() => flip(s)}>{words(s)} <span class="n">{count(counts[s] ?? 0)}{more && '+'}</span></button>
        ))}
      </div>
      <details open={!narrow.value || anyFilter(f)}>
        <summary>Filters</summary>
        <div class="row">
          <FilterText id="filter-name" label="Name" value={f.name} hint="nightly, *-eu or TASK_…" onChange={find} />
          <FilterText id="filter-label" label="Label" value={f.labels.join(' ')} hint="team=core" whole={labels} onChange={(l) => setQuery({ label: l.split(/\s+/) })} />
          <FilterText id="filter-who" label="Submitter" value={f.requestor} hint="user:ada" onChange={(requestor) => setQuery({ requestor })} />
          <div class="field">
            <label for="filter-since">Since</label>
            <select id="filter-since" value={f.since} onChange={(e) => setQuery({ since: e.currentTarget.value })}>
              <option value="">ever</option>{sinceChoices.map((s) => <option key={s} value={s}>{s}</option>)}
            </select>
          </div>
          <label class="check"><input type="checkbox" checked={f.dead} onChange={(e) => setQuery({ dead: e.currentTarget.checked ? 'true' : '' })} /> Dead letter</label>
          {(f.session || f.parent) && <button type="button" onClick={() => setQuery({ session: '', parent: '' })}>{f.session ? 'Of one session' : 'Children of one task'} ✕</button>}
        </div>
      </details>
    </form>
  )
}

/** find opens the task with an id, or filters by name. */
const find = (text: string): void => (isTaskID(text) ? go(href(`/tasks/${text}`)) : setQuery({ name: text }))

const labels = (text: string): boolean => text.split(/\s+/).every((l) => l === '' || l.includes('='))

const anyFilter = (f: Filters): boolean => f.name + f.labels.join('') + f.requestor + f.since !== '' || f.dead

/** Verb is what can be done to many tasks: by all who submit tasks, or by those who decide. skip says why it cannot be done to one. */
interface Verb { verb: string; path: Act; danger?: boolean; all?: boolean; reason?: 'optional'; skip: (t: Summary) => string; command: (id: string, reason: string) => string }

const verbs: Verb[] = [
  { verb: 'Cancel', path: 'cancel', danger: true, all: true, reason: 'optional', skip: (t) => (terminal(t.state) ? 'it has ended' : ''), command: (id, reason) => commands.cancel(id, reason) },
  { verb: 'Retry', path: 'retry', skip: (t) => (t.state === 'FAILED' || t.state === 'CANCELLED' ? '' : 'it has not failed'), command: (id) => commands.retry(id) },
  { verb: 'Redrive', path: 'redrive', skip: (t) => (t.state === 'FAILED' ? '' : 'it has not failed'), command: (id) => commands.redrive(id) },
]

/** Pair compares two tasks, the older one first. */
const Pair = ({ of: [a = '', b = ''] }: { of: string[] }) => (
  <span class="pair"><a class="button" href={href('/compare', { a, b })}>Compare</a><Command text={commands.diff(a, b)} /></span>
)

/** about tells tasks of one name apart: their labels, when they were submitted, and their ids. */
const about = (t: Summary): string =>
  [...Object.entries(t.labels ?? {}).map(([k, v]) => `${k}=${v}`), `submitted ${moment(t.created_at)}`, t.id].join(' · ')

function BulkBar({ tasks, onDone }: { tasks: Summary[]; onDone: () => void }) {
  const jobs = (v: Verb, reason: string): Job[] => tasks.map((t) => ({
    id: t.id, title: t.name || t.id, detail: about(t), before: words(t.state), skip: v.skip(t), command: v.command(t.id, reason), now: () => taskNow(t.id), run: () => post(`/tasks/${t.id}/${v.path}`, reason ? { reason } : {}),
  }))
  return (
    <div class={`bulkbar ${tasks.length ? '' : 'none'}`} role="group" aria-label="Selected tasks">
      {tasks.length > 0 && <span>{count(tasks.length)} selected</span>}
      {tasks.length === 2 && <Pair of={tasks.map((t) => t.id).sort()} />}
      {verbs.filter((v) => v.all || decides.value).map((v) => <Bulk key={v.verb} verb={v.verb} act={v.path} off={tasks.length === 0} danger={v.danger ?? false} {...(v.reason ? { reason: v.reason } : {})} jobs={(reason) => jobs(v, reason.trim())} onDone={onDone} />)}
    </div>
  )
}
