import type { Act, ActOutcome, AuditReply } from '../api.ts'
import { auditList, filtersOf, isFiltered, outcomes, placeOf, timeForms, wrongOf, wrongTime, type Filters } from '../audit.ts'
import { commands } from '../commands.ts'
import { count, moment, plural, words } from '../format.ts'
import { useKeys } from '../keys.ts'
import { narrow } from '../node.ts'
import { href, query, setQuery } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { FilterText } from '../ui/filter.tsx'
import { Fields } from '../ui/json.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Refused } from '../ui/refused.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Virtual } from '../ui/virtual.tsx'
import { useActs } from '../useActs.ts'

/** AuditPage lists who did what at the node and who was refused what. Its filters, and the act that is open, are the query of its address. */
export function AuditPage() {
  useTitle('Audit')
  const f = filtersOf(query.value)
  const wrong = wrongOf(query.value)
  const acts = useActs(f, wrong.length > 0)
  const n = Number(query.value.get('n') ?? 0)
  const cursor = acts.list.findIndex((a) => a.n === n)
  const open = useAct(n, acts.list[cursor])
  const move = (i: number) => setQuery({ n: String(acts.list[i]?.n ?? '') })
  useKeys([
    { key: 'j', does: 'Older act', run: () => move(Math.min(acts.list.length - 1, cursor + 1)) },
    { key: 'k', does: 'Newer act', run: () => move(Math.max(0, cursor - 1)) },
    { key: '/', does: 'Filter by actor', run: () => document.getElementById('filter-actor')?.focus() },
  ], [acts.list, cursor])
  const refused = acts.problem !== undefined && acts.list.length === 0
  return (
    <div class="tasks">
      <h1>Audit</h1>
      <p class="quiet">Who did what at this node, and who was refused what. <span class="withtext">The whole stream, with its chain: <code>{commands.auditExport()}</code><Command text={commands.auditExport()} /></span></p>
      {!refused && <FilterBar f={f} />}
      <Problem of={acts.problem} />
      {wrong.length > 0 && <Refused of={wrong} />}
      {!refused && wrong.length === 0 && <p class="quiet small sum" role="status">{plural(acts.list.length, 'act')}{acts.next > 0 && ', and older ones'}{acts.reading && ', reading…'} <Command text={auditList(f)} /></p>}
      {wrong.length > 0 ? null : acts.list.length === 0
        ? acts.reading ? <Loading /> : !refused && <Nothing filtered={isFiltered(f)} />
        : <><Heads /><Virtual items={acts.list} height={narrow.value ? 88 : 40} label="Acts" class="table" id={(a) => String(a.n)} cursor={cursor} onCursor={move} end={acts.more} row={(a) => <Row of={a} open={a.n === n} />} /></>}
      {n > 0 && open.act && <Details of={open.act} />}
      {n > 0 && open.missing && <p class="quiet" role="status">There is no act {n} among those that match. Retention may have removed it.</p>}
    </div>
  )
}

function Nothing({ filtered }: { filtered: boolean }) {
  return filtered
    ? <Empty title="No act matches.">Change the filters. Reading is no act, and what tasks do is in their own histories.</Empty>
    : <Empty title="No act is recorded yet."><>Whoever cancels a task, decides about an approval or makes a token is listed here: <code>{commands.auditList()}</code> <Command text={commands.auditList()} /></></Empty>
}

/** useAct returns an act by its number: the one that the list has, or one that is read alone. */
function useAct(n: number, listed: Act | undefined): { act: Act | undefined; missing: boolean } {
  const read = useGet<AuditReply>(n > 0 && !listed ? '/audit' : '', { before: n + 1, limit: 1 })
  const alone = read.data?.acts[0]
  const act = listed ?? (alone?.n === n ? alone : undefined)
  return { act, missing: !act && read.data !== undefined }
}

const heads: [string, string][] = [['state', 'Outcome'], ['name', 'Act'], ['submitter', 'Actor'], ['reason', 'Target, and why not'], ['changed', 'Began']]

/** Heads names the columns. */
const Heads = () => <div class="table heads">{heads.map(([name, title]) => <span key={name} class={`head of-${name}`}>{title}</span>)}</div>

const looks: Record<ActOutcome, string> = { done: 'good', refused: 'block', failed: 'bad', unknown: 'wait' }

const Outcome = ({ of }: { of: ActOutcome }) => <span class={`state ${looks[of] ?? 'wait'}`}>{words(of)}</span>

function Row({ of: a, open }: { of: Act; open: boolean }) {
  const params = new URLSearchParams(query.value)
  if (open) params.delete('n')
  else params.set('n', String(a.n))
  const why = [a.target, a.error?.code, a.count ? plural(a.count, 'time') : ''].filter(Boolean).join(' · ')
  return (
    <>
      <Outcome of={a.outcome} />
      <a class="cut" href={href('/audit') + (params.size ? `?${params}` : '')} aria-current={open ? 'true' : undefined}>{a.act}</a>
      <span class="who cut" data-label="Actor"><Line>{a.actor}</Line></span>
      <span class="why cut" data-label="Target"><Line>{why}</Line></span>
      <Ago at={a.at} />
    </>
  )
}

function FilterBar({ f }: { f: Filters }) {
  const time = (text: string) => (wrongTime(text) ? `Write it as ${timeForms}` : '')
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
      <details open={!narrow.value || isFiltered(f)}>
        <summary>Filters</summary>
        <div class="row top">
          <FilterText id="filter-actor" label="Actor" value={f.actor} hint="user:ada" onChange={(actor) => setQuery({ actor })} />
          <FilterText id="filter-act" label="Act" value={f.act} hint="token.*" onChange={(act) => setQuery({ act })} />
          <FilterText id="filter-target" label="Target" value={f.target} hint="TASK_01…" onChange={(target) => setQuery({ target })} />
          <div class="field">
            <label for="filter-outcome">Outcome</label>
            <select id="filter-outcome" value={f.outcome} onChange={(e) => setQuery({ outcome: e.currentTarget.value })}><option value="">any</option>{outcomes.map((o) => <option key={o} value={o}>{o}</option>)}</select>
          </div>
          <FilterText id="filter-since" label="Since" value={f.since} hint="24h" wrong={time(f.since)} onChange={(since) => setQuery({ since })} />
          <FilterText id="filter-until" label="Until" value={f.until} hint="2026-11-29" wrong={time(f.until)} onChange={(until) => setQuery({ until })} />
        </div>
      </details>
    </form>
  )
}

const faces: Record<string, string> = {
  process: 'a command that started a node itself', bus: 'the command line', http: 'the HTTP API or the page', mcp: 'an MCP client', task: 'a call of a task', files: 'a command on the files',
  node: 'the node itself',
}

function Details({ of: a }: { of: Act }) {
  const at = placeOf(a)
  const place = at && href(...at)
  return (
    <section class="eventdetail" aria-label="Selected act">
      <h2>{a.act} <span class="quiet">number {count(a.n)}</span></h2>
      <dl class="facts">
        <div><dt>Outcome</dt><dd><Outcome of={a.outcome} />{a.outcome === 'unknown' && <span class="quiet"> its result is not recorded: it goes on, or the node was killed</span>}</dd></div>
        {a.error && <div><dt>Why</dt><dd><Txt>{a.error.message}</Txt> <code>{a.error.code}</code>{a.error.reason && <> <code><Txt>{a.error.reason}</Txt></code></>}{a.error.field && <> · field <code><Txt>{a.error.field}</Txt></code></>}</dd></div>}
        <div><dt>Actor</dt><dd><Txt>{a.actor}</Txt>{a.credential && <span class="quiet">, with <Txt>{a.credential}</Txt></span>}</dd></div>
        {a.target && <div><dt>Target</dt><dd>{place ? <a href={place}><code><Txt>{a.target}</Txt></code></a> : <code><Txt>{a.target}</Txt></code>}</dd></div>}
        {a.task && <div><dt>Task</dt><dd><a href={place ?? ''}>{a.task.id}</a>{a.task.rev && <span class="quiet"> at revision {a.task.rev}</span>}{a.task.hash && <div class="small quiet">commit <code><Txt>{a.task.hash}</Txt></code></div>}</dd></div>}
        <div><dt>Began</dt><dd>{moment(a.at)}</dd></div>
        {a.ended_at && <div><dt>Ended</dt><dd>{moment(a.ended_at)}</dd></div>}
        {a.count !== undefined && <div><dt>Repeated</dt><dd>{plural(a.count, 'time')} since {moment(a.since)}</dd></div>}
        <div><dt>Through</dt><dd>{faces[a.face] ?? a.face}{a.source && <span class="quiet">, from <Txt>{a.source}</Txt></span>}</dd></div>
      </dl>
      {a.params && <Fields value={a.params} label="parameters" />}
    </section>
  )
}
