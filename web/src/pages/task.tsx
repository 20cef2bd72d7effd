import { useState } from 'preact/hooks'
import type { ApprovalView, ApprovalsReply, ExplainReply, Progress, StepView, TaskView } from '../api.ts'
import { address, post } from '../client.ts'
import { commands } from '../commands.ts'
import { unanswered } from '../decisions.ts'
import { terminal, type Task } from '../fold.ts'
import { count, duration, moment, plural } from '../format.ts'
import { useKeys } from '../keys.ts'
import { decides, limited, now, submits } from '../node.ts'
import { unknownIn, wrongPlace } from '../refused.ts'
import { closeQuery, go, href, openQuery, query, setQuery } from '../route.ts'
import { openSteer, steer } from '../steering.ts'
import { barsAt } from '../timeline.ts'
import { announce } from '../ui/announce.tsx'
import { Command, Copy } from '../ui/copy.tsx'
import { Loading, Problem } from '../ui/notice.tsx'
import { Refused } from '../ui/refused.tsx'
import { State } from '../ui/state.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useAction, useGet, useTitle } from '../ui/use.ts'
import { useHistory, type Following } from '../useHistory.ts'
import { FullApproval } from './approval.tsx'
import { Causes } from './causes.tsx'
import { Conversation } from './conversation.tsx'
import { Events } from './events.tsx'
import { Files } from './files.tsx'
import { ForkDialog } from './fork.tsx'
import { Graph } from './graph.tsx'
import { HoldButton, HoldsOf } from './holds.tsx'
import { Logs } from './logs.tsx'
import { Missing, isMissing } from './missing.tsx'
import { QuestionCard } from './question.tsx'
import { LostOf } from './settled.tsx'
import { RetryDialog, StepPanel } from './step.tsx'
import { CancelButton } from './stuck.tsx'
import { TraceLink, TraceOf } from './trace.tsx'
import { TimelineView } from './timeline.tsx'
import { Value } from './value.tsx'
import { Undo } from './undo.tsx'
import { UnsureOf } from './unsure.tsx'

/** TaskPage shows one task: why it does not move, what it did when, and its state at any revision. */
export function TaskPage({ id }: { id: string }) {
  const task = useGet<TaskView>(`/tasks/${id}`)
  const why = useGet<ExplainReply>(`/tasks/${id}/explain`)
  const approvals = useGet<ApprovalsReply>('/approvals', { task: id })
  const reload = () => { task.reload(); why.reload(); approvals.reload() }
  const following = useHistory(id, task.data?.rev ?? 0, reload)
  useTitle(task.data?.name || id)
  if (!task.data) return task.problem ? unreadable(id, task.problem) : <Loading />
  const { history } = following
  const state = (following.loaded && history.at(Infinity).state) || task.data.state
  const t = { ...task.data, state }
  const asked = Number(query.value.get('rev') ?? 0)
  const past = asked > 0 && asked < history.rev
  const wrong = [
    ...wrongPlace(query.value, Math.max(t.rev, history.rev), following.loaded ? new Set(history.at(Infinity).steps.keys()) : undefined),
    ...unknownIn(query.value, { tab: tabsOf(t) }),
  ]
  const at: Moment = { rev: past ? asked : history.rev, past, task: history.at(past ? asked : history.rev), time: past ? history.timeOf(asked) : NaN }
  const waiting = (approvals.data?.approvals ?? []).filter((a) => a.status === 'pending')
  return (
    <div class="task">
      <Heading of={t} at={at} last={history.rev} />
      {why.data && !past && <Causes of={why.data} />}
      {!past && <HoldsOf task={t} onChange={reload} />}
      <LostOf task={id} waiting={waiting} />
      <UnsureOf task={id} onKnown={reload} />
      <Problem of={following.problem} />
      {wrong.length > 0 && <Refused of={wrong} says="The address of this page names what this task does not have." />}
      <TaskActions of={t} following={following} onChange={reload} />
      <Body of={t} following={following} at={at} waiting={waiting} onChange={reload} />
    </div>
  )
}

/** unreadable says why there is no task to show. */
const unreadable = (id: string, problem: unknown) => (isMissing(problem) ? <Missing task={id} /> : <Problem of={problem} />)

/** Moment is the revision that the page shows, and the task as it was then. time is that of the revision, NaN for the newest. */
interface Moment { rev: number; past: boolean; task: Task; time: number }

function Heading({ of: t, at, last }: { of: TaskView; at: Moment; last: number }) {
  const end = at.past ? at.time : Date.parse(t.ended_at ?? '') || now.value
  const over = at.past ? terminal(at.task.state) : t.ended_at
  return (
    <header class="heading">
      <h1><Txt>{t.name || t.id}</Txt></h1>
      <p class="facts-line">
        {at.past ? <State of={at.task.state} paused={at.task.paused} /> : <State of={t.state} paused={t.paused} />}
        {at.past && <strong class="pastmark">at revision {count(at.rev)} of {count(last)}</strong>}
        <span><code>{t.id}</code> <Copy text={t.id} label="Copy the id">Copy</Copy></span>
        <span title={moment(t.created_at)}>began <Ago at={t.created_at} />{Date.parse(t.created_at) < now.value - 5000 && ' ago'}</span>
        <span title="from its submission to its end, with queues and waits">{over ? 'took' : 'for'} {duration(end - Date.parse(t.created_at))}</span>
        <span>by <Txt>{t.requestor}</Txt></span>
        {t.priority !== 'normal' && <span>{t.priority} priority</span>}
        {t.parent && <a href={href(`/tasks/${t.parent}`)}>parent task</a>}
        {t.retry_of && <a href={href(`/tasks/${t.retry_of}`)}>retry of another task</a>}
        {t.fork_of && <a href={href(`/tasks/${t.fork_of}`, { rev: String(t.fork_at ?? '') || undefined })}>fork of another task</a>}
        {t.session && <a href={href('/tasks', { session: t.session })}>session</a>}
        <TraceLink task={t.id} />
        {Object.entries(t.labels ?? {}).map(([k, v]) => <span key={k} class="label"><Txt>{`${k}=${v}`}</Txt></span>)}
      </p>
      {t.summary && <p class="quiet"><Txt>{t.summary}</Txt></p>}
    </header>
  )
}

interface PartProps { of: TaskView; following: Following; onChange: () => void }

function TaskActions({ of: t, following, onChange }: PartProps) {
  const action = useAction(onChange)
  const [retry, setRetry] = useState(false)
  const fork = query.value.get('fork')
  const over = terminal(t.state)
  const run = (what: string) => action.run(() => steer(t.id, what, t.rev, () => post(`/tasks/${t.id}/${what}`, { seen_rev: t.rev }))).then((ok) => { if (ok) { announce('Done.'); onChange() } })
  const closeFork = () => closeQuery({ fork: undefined })
  const decide = decides.value
  const off = action.busy || openSteer(t.id) !== undefined
  return (
    <>
      <div class="actions" role="group" aria-label="Actions">
        {decide && (t.state === 'FAILED' || t.state === 'CANCELLED') && <span class="pair"><button class="primary" onClick={() => setRetry(true)}>Retry…</button><Command text={commands.retry(t.id)} /></span>}
        {decide && t.state === 'BLOCKED' && !t.paused && t.block !== 'input' && <span class="pair"><button class="primary" disabled={off} onClick={() => void run('resume')}>Resume</button><Command text={commands.resume(t.id)} /></span>}
        {decide && !over && (t.paused
          ? <span class="pair"><button disabled={off} onClick={() => void run('resume')}>Resume</button><Command text={commands.resume(t.id)} /></span>
          : <span class="pair"><button disabled={off} onClick={() => void run('pause')}>Pause</button><Command text={commands.pause(t.id)} /></span>)}
        {submits.value && <span class="pair"><CancelButton of={t} off={over} onDone={onChange} />{!over && <Command text={commands.cancel(t.id)} />}</span>}
        {decide && <span class="pair"><button onClick={() => openQuery({ fork: query.value.get('rev') ?? String(t.rev) })}>Fork…</button><Command text={commands.forkDry(t.id, query.value.get('rev') ?? '')} /></span>}
        {decide && over && t.session && t.session !== t.id && !t.parent && <span class="pair"><Undo session={t.id} title={t.name || t.id} what="call" /><Command text={commands.undoDry(t.id)} /></span>}
        {decide && <HoldButton task={t.id} onChange={onChange} />}
        <span class="pair"><a class="button" href={href('/compare', { a: t.retry_of || t.fork_of || t.id, b: t.retry_of || t.fork_of ? t.id : undefined })}>Compare</a></span>
        {!limited.value && <span class="pair"><a class="button" href={address(`/tasks/${t.id}/export`)} download>Export</a><Command text={commands.export(t.id)} /></span>}
      </div>
      {!unanswered(action.problem) && <Problem of={action.problem} />}
      {retry && <RetryDialog id={t.id} task={following.history.at(Infinity)} from="" onClose={() => setRetry(false)} />}
      {fork !== null && decide && <ForkDialog task={t} at={fork} steps={(t.steps ?? []).map((s) => s.key)} live="" onClose={closeFork} />}
    </>
  )
}

const views = ['timeline', 'graph', 'events', 'logs', 'files', 'data', 'conversation'] as const
type Tab = (typeof views)[number]

const agentsOf = (t: TaskView): string[] => (t.steps ?? []).filter((s) => s.kind === 'agent').map((s) => s.key)

/** tabsOf returns the views of a task: one without agents has no conversation. */
const tabsOf = (t: TaskView): readonly Tab[] => views.filter((name) => name !== 'conversation' || agentsOf(t).length > 0)

/** Body is what depends on the revision: the slider and the tabs. */
function Body({ of: t, following, at, waiting, onChange }: PartProps & { at: Moment; waiting: ApprovalView[] }) {
  const { history, version } = following
  const { rev, task } = at
  const live = !at.past
  const [collapse, setCollapse] = useState(true)
  const agents = agentsOf(t)
  const tabs = tabsOf(t)
  const tab = tabs.find((name) => name === query.value.get('tab')) ?? 'timeline'
  const selected = query.value.get('step') ?? ''
  const step = task.steps.get(selected)
  const questions = (t.questions ?? []).filter((q) => q.status === 'open')
  const asks = !step && live && waiting.length + questions.length > 0
  const until = live && !terminal(t.state) ? now.value : history.timeOf(rev) || now.value
  const select = (key: string) => setQuery({ step: key || undefined })
  useKeys([
    { key: '[', does: 'One revision back', run: () => setQuery({ rev: String(Math.max(1, rev - 1)) }) },
    { key: ']', does: 'One revision on', run: () => setQuery({ rev: rev + 1 >= history.rev ? undefined : String(rev + 1) }) },
    ...tabs.map((name, i) => ({ key: String(i + 1), does: `Show ${name}`, run: () => setQuery({ tab: name }) })),
  ], [rev, version, tabs.length])
  return (
    <>
      <Slider rev={rev} last={history.rev} total={t.rev} live={live} at={history.timeOf(rev)} id={t.id} loaded={following.loaded} />
      <div class={`body ${step || asks ? 'withpanel' : ''}`}>
        <div class="main">
          <nav class="tabs" aria-label="Views of the task">
            {tabs.map((name) => <a key={name} href={href(`/tasks/${t.id}`, { ...kept(), tab: name })} aria-current={name === tab ? 'page' : undefined}>{name[0]?.toUpperCase() + name.slice(1)}</a>)}
            {tab === 'timeline' && <label class="check end"><input type="checkbox" checked={collapse} onChange={(e) => setCollapse(e.currentTarget.checked)} /> Collapse idle time</label>}
          </nav>
          {tab === 'timeline' && <TimelineView history={history} task={task} rev={rev} until={until} collapse={collapse} selected={selected} onSelect={select} />}
          {tab === 'graph' && <Graph task={task} selected={selected} onSelect={select} />}
          {tab === 'events' && <Events history={history} version={version} rev={rev} />}
          {tab === 'logs' && <Logs id={t.id} history={history} version={version} rev={rev} task={task} />}
          {tab === 'files' && <Files id={t.id} past={at.past} />}
          {tab === 'data' && <Data of={t} task={task} />}
          {tab === 'conversation' && <Conversation id={t.id} agents={agents} step={selected} rev={rev} live={live} version={version} kept={kept()} />}
        </div>
        {asks && (
          <div class="cards">
            {waiting.map((a) => <FullApproval key={a.id} of={a} onDone={onChange} />)}
            {questions.map((q) => <QuestionCard key={q.id} of={q} onDone={onChange} />)}
          </div>
        )}
        {step && (
          <StepPanel
            key={selected} id={t.id} task={task} step={step} bars={barsAt(history.timeline.steps.get(selected) ?? [], rev)} until={until} now={live}
            live={withProgress(t.steps?.find((s) => s.key === selected), following.progress[selected])} onClose={() => select('')} onChange={onChange}
          />
        )}
      </div>
    </>
  )
}

const withProgress = (s: StepView | undefined, progress: Progress | undefined): StepView | undefined => (s && progress ? { ...s, progress } : s)

const kept = () => ({ rev: query.value.get('rev') ?? undefined, step: query.value.get('step') ?? undefined, agent: query.value.get('agent') ?? undefined, file: query.value.get('file') ?? undefined })

interface SliderProps { rev: number; last: number; total: number; live: boolean; at: number; id: string; loaded: boolean }

/** Slider chooses the revision that the views show. Nothing runs again: the browser folds the recorded events. */
function Slider(p: SliderProps) {
  const set = (rev: number) => setQuery({ rev: rev >= p.last ? undefined : String(rev) })
  return (
    <div class={`slider ${p.live ? '' : 'past'}`}>
      <label for="slider">Revision</label>
      <input id="slider" type="range" min={1} max={Math.max(1, p.last)} value={p.rev} onInput={(e) => set(Number(e.currentTarget.value))} aria-valuetext={`revision ${p.rev} of ${p.last}`} />
      <output class="num">{count(p.rev)} of {count(p.last)}</output>
      {!p.loaded && <span class="quiet small" role="status">reading {plural(p.total, 'revision')}…</span>}
      {!p.live && (
        <p class="past">
          <span>You look at the task as it was at {moment(p.at)}.</span> <Command text={commands.replay(p.id, p.rev)} /> <button type="button" onClick={() => set(p.last)}>Back to now</button>
          <button type="button" onClick={() => go(href(`/tasks/${p.id}`, { ...kept(), fork: String(p.rev) }))}>Fork here…</button><Command text={commands.forkDry(p.id, String(p.rev))} />
        </p>
      )}
    </div>
  )
}

function Data({ of: t, task }: { of: TaskView; task: Task }) {
  return (
    <div class="data">
      {task.error && <section><h2>Error</h2><div class="problem"><p><Txt>{task.error.message}</Txt> <code>{task.error.name}</code></p></div></section>}
      <section><h2>Inputs</h2><Value task={t.id} value={t.inputs} label="inputs" /></section>
      <section><h2>Output</h2><Value task={t.id} value={task.output} label="output" command={commands.result(t.id)} /></section>
      {(t.checkpoints ?? []).length > 0 && <section><h2>Checkpoints</h2><ul class="plainlist">{t.checkpoints?.map((c) => <li key={c.id}><code>{c.id}</code> <Txt>{c.name}</Txt> <span class="quiet"><Ago at={c.at} /></span></li>)}</ul></section>}
      <TraceOf of={t} />
      <section><h2>Plan</h2><Value task={t.id} value={task.plan} label="plan" /></section>
    </div>
  )
}
