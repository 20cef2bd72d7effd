import { useState } from 'preact/hooks'
import type { ApprovalView, ExplainReply, Json, StepView, Summary, TaskView } from '../api.ts'
import { taskNow } from '../bulk.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { unanswered } from '../decisions.ts'
import { record } from '../json.ts'
import { decides, submits } from '../node.ts'
import { bulkReason } from '../openact.ts'
import { reaching } from '../reach.ts'
import { go, href } from '../route.ts'
import { openSteer, steer } from '../steering.ts'
import { announce } from '../ui/announce.tsx'
import { Bulk, type Job } from '../ui/bulk.tsx'
import { Command } from '../ui/copy.tsx'
import { Fields } from '../ui/json.tsx'
import { Loading, Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { State } from '../ui/state.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useAction, useGet } from '../ui/use.ts'
import { Asked } from './approval.tsx'
import { Causes } from './causes.tsx'
import { UnsureOf } from './unsure.tsx'

/**
 * StuckCard shows a task that only a person can bring further: in doubt, in the dead letter, or stuck because it waits for a worker that nobody has
 * started. asked are the approvals that nobody decided in time.
 */
export function StuckCard({ of: t, asked, waits, onDone }: { of: Summary; asked: ApprovalView[]; waits: boolean; onDone: () => void }) {
  const task = useGet<TaskView>(`/tasks/${t.id}`)
  const why = useGet<ExplainReply>(`/tasks/${t.id}/explain`)
  const reload = () => { task.reload(); why.reload() }
  const doubtful = (task.data?.steps ?? []).filter((s) => s.state === 'in_doubt')
  return (
    <article class="card" aria-labelledby={t.id}>
      <p class="kicker">{doubtful.length ? 'In doubt' : waits ? 'Stuck' : 'Dead letter'}</p>
      <h2 id={t.id}><a href={href(`/tasks/${t.id}`)}><Txt>{t.name || t.id}</Txt></a></h2>
      <p><State of={t.state} paused={t.paused} /> <span class="quiet">since <Ago at={t.updated_at} />, submitted by <Txt>{t.requestor}</Txt></span></p>
      <UnsureOf task={t.id} onKnown={() => { reload(); onDone() }} />
      <Problem of={task.problem} />
      {why.data ? <Causes of={why.data} /> : <Loading />}
      {asked.map((a) => <Asked key={a.id} of={a} />)}
      {doubtful.map((s) => <Resolve key={s.key} task={t.id} rev={task.data?.rev} step={s} onDone={onDone} onStale={reload} />)}
      {waits && <WhatToDo of={why.data} />}
      {doubtful.length === 0 && <Continue of={t} rev={task.data?.rev} waits={waits} onDone={onDone} onStale={reload} />}
    </article>
  )
}

/** WhatToDo names the commands that let a task go on. */
function WhatToDo({ of }: { of: ExplainReply | undefined }) {
  const all = [...new Set((of?.causes ?? []).filter((c) => c.kind === 'no_worker' && c.next).map((c) => c.next ?? ''))]
  if (all.length === 0) return null
  return (
    <section>
      <h3>What to do</h3>
      <p>Start a worker on a machine that has what the calls need; the task goes on by itself. Or cancel the task.</p>
      <ul class="plainlist">{all.map((c) => <li key={c} class="withtext"><code><Txt>{reaching(c)}</Txt></code><Command text={reaching(c)} /></li>)}</ul>
    </section>
  )
}

/** Resolve decides about a step in doubt. */
export function Resolve({ task, rev, step, onDone, onStale }: { task: string; rev: number | undefined; step: StepView; onDone: () => void; onStale: () => void }) {
  const [as, setAs] = useState('')
  const why = useReason(`why-${step.key}`, `${task}/${step.key}`)
  const reason = why.text
  const action = useAction(onStale)
  const folded = useGet<{ task: Json }>(`/tasks/${task}/replay`)
  const args = record(record(record(folded.data?.task)?.['steps'])?.[step.key])?.['args']
  const submit = async (e: Event) => {
    e.preventDefault()
    if (await action.run(() => steer(task, `resolve step ${step.key}`, rev, () => post(`/tasks/${task}/resolve`, { step: step.key, as, reason, seen_rev: rev }), `${task}/${step.key}`))) {
      why.set('')
      announce('Resolved.')
      onDone()
    }
  }
  return (
    <section>
      <h3>Did this call happen? <code><Txt>{step.tool || step.key}</Txt></code></h3>
      <p class="quiet">Step <code><Txt>{step.key}</Txt></code> began on worker <Txt>{step.worker || 'unknown'}</Txt>, which was lost before it reported the end. <Txt>{step.reason}</Txt></p>
      <Fields value={args} label="arguments" />
      {decides.value && (
        <form class="decide" onSubmit={(e) => void submit(e)}>
          <fieldset>
            <legend>Look whether it happened, then choose</legend>
            {choices.map(([value, label]) => (
              <label key={value} class="check"><input type="radio" name={`as-${step.key}`} required checked={as === value} onChange={() => setAs(value)} /> {label}</label>
            ))}
          </fieldset>
          <ReasonField of={why} about="stays in the log" />
          {!unanswered(action.problem) && <Problem of={action.problem} />}
          <div class="actions"><span class="pair"><button class="primary" disabled={action.busy || openSteer(task) !== undefined}>Resolve</button>{as && <Command text={commands.resolve(task, step.key, as, reason)} />}</span></div>
        </form>
      )}
    </section>
  )
}

const choices: [string, string][] = [
  ['succeeded', 'It happened: continue as if it had succeeded'], ['failed', 'It did not happen, and the step fails'], ['retry', 'Call it once more'],
]

/** CancelButton cancels one task after a confirmation, because a cancelled task cannot go on. */
export function CancelButton({ of: t, off = false, onDone }: { of: Pick<Summary, 'id' | 'name' | 'state'> & { rev?: number }; off?: boolean; onDone: () => void }) {
  const verb = 'Cancel'
  const job = (reason: string): Job => ({
    id: t.id, title: t.name || t.id, now: () => taskNow(t.id), detail: 'with its children and its running calls', skip: '', command: commands.cancel(t.id, reason.trim()), run: () => steer(t.id, 'cancel', t.rev, () => post(`/tasks/${t.id}/cancel`, { reason, seen_rev: t.rev }), bulkReason(verb)),
  })
  return <Bulk verb={verb} off={off} waiting={openSteer(t.id) !== undefined} alone danger reason="optional" jobs={(reason) => [job(reason)]} onDone={onDone} />
}

/** Continue lets a failed or blocked task go on. One that waits for a worker can only be cancelled. */
export function Continue({ of: t, rev, waits = false, onDone, onStale }: { of: Pick<Summary, 'id' | 'name' | 'state' | 'block'>; rev: number | undefined; waits?: boolean; onDone: () => void; onStale: () => void }) {
  const action = useAction(onStale)
  const run = async (what: 'redrive' | 'resume') => {
    let id = t.id
    const ok = await action.run(async () => { id = (await steer(t.id, what, rev, () => post<{ id?: string }>(`/tasks/${t.id}/${what}`, { seen_rev: rev }))).id ?? id })
    if (!ok) return
    announce('Done.')
    onDone()
    if (id !== t.id) go(href(`/tasks/${id}`))
  }
  if (!submits.value) return null
  const failed = t.state === 'FAILED'
  const off = action.busy || openSteer(t.id) !== undefined
  return (
    <>
      {!unanswered(action.problem) && <Problem of={action.problem} />}
      <div class="actions">
        {decides.value && !waits && (failed
          ? <span class="pair"><button class="primary" disabled={off} onClick={() => void run('redrive')}>Redrive</button><Command text={commands.redrive(t.id)} /></span>
          : <span class="pair"><button class="primary" disabled={off} onClick={() => void run('resume')}>Resume</button><Command text={commands.resume(t.id)} /></span>)}
        {!failed && <span class="pair"><CancelButton of={{ ...t, ...(rev ? { rev } : {}) }} onDone={onDone} /><Command text={commands.cancel(t.id)} /></span>}
        <a class="button" href={href(`/tasks/${t.id}`)}>Open the task</a>
      </div>
      {!failed && !waits && decides.value && <p class="quiet small">{t.block === 'expired' ? resumeAsks : resumeLooks}</p>}
      {failed && decides.value && <p class="quiet small">A redrive continues the task as a new one, once: it keeps the results of the steps that have succeeded, and takes the task out of the dead letter. A retry, on the page of the task, can begin earlier and as often as you like.</p>}
    </>
  )
}

const resumeAsks = 'Resume asks again: a new approval of the same call waits then, and nothing is called before somebody grants it. Cancel ends the task.'
const resumeLooks = 'Resume lets the task go on if what has blocked it is mended. Otherwise it stays blocked. Cancel ends the task.'
