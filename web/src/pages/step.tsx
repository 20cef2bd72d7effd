import { useState } from 'preact/hooks'
import type { StepView, SubmitReply } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { terminal, type Step, type Task } from '../fold.ts'
import { duration } from '../format.ts'
import { nodes } from '../graph.ts'
import { decides } from '../node.ts'
import { go, href, query } from '../route.ts'
import { openSteer, steer } from '../steering.ts'
import { length, look, type Bar } from '../timeline.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { State } from '../ui/state.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'
import { Resolve } from './stuck.tsx'
import { Value } from './value.tsx'

interface StepPanelProps { id: string; task: Task; step: Step; bars: Bar[]; live: StepView | undefined; until: number; now: boolean; onClose: () => void; onChange: () => void }

/** StepPanel shows all about one step: its attempts, arguments, output, and what can be done. */
export function StepPanel(p: StepPanelProps) {
  const { step: s } = p
  return (
    <aside class="panel" aria-label={`Step ${s.key}`}>
      <header><h2><Txt>{s.key}</Txt></h2><button type="button" class="plain close" aria-label="Close the step" onClick={p.onClose} /></header>
      <p><State of={s.state} />{s.tool && <> <code><Txt>{s.tool}</Txt></code></>}{s.effect && <span class="quiet"> · {s.effect}</span>}</p>
      {s.error && <div class="problem"><p><Txt>{s.error.message}</Txt> <code>{s.error.name}</code></p>{s.error.hint && <p class="quiet"><Txt>{s.error.hint}</Txt></p>}</div>}
      {s.reason && <p class="quiet"><Txt>{s.reason}</Txt></p>}
      {p.live?.progress && p.now && <Progress of={p.live} />}
      <Actions {...p} />
      {s.state === 'in_doubt' && p.now && p.live && <Resolve task={p.id} rev={p.task.rev} step={p.live} onDone={p.onChange} onStale={p.onChange} />}
      <Attempts bars={p.bars} until={p.until} />
      {s.worker && <p class="quiet small">Worker <Txt>{s.worker}</Txt></p>}
      <section><h3>Arguments</h3><Value task={p.id} value={s.args} label="arguments" /></section>
      <section><h3>{refused(s) ? 'Output, which the plan did not expect' : 'Output'}</h3><Value task={p.id} value={s.output} label="output" command={commands.output(p.id, s.key)} /></section>
    </aside>
  )
}

/** refused reports whether the output of a step is one that the plan did not expect. */
const refused = (s: Step): boolean => s.state !== 'succeeded' && s.error !== undefined && s.output !== undefined

function Progress({ of }: { of: StepView }) {
  const g = of.progress
  return g ? <p><progress aria-label="Progress" value={g.done} max={g.total || undefined} /> <span class="quiet"><Txt>{g.message}</Txt></span></p> : null
}

function Attempts({ bars, until }: { bars: Bar[]; until: number }) {
  if (bars.length === 0) return null
  return (
    <section>
      <h3>What it did</h3>
      <ol class="attempts">
        {bars.slice(-50).map((b, i) => (
          <li key={i}><i class={`bar ${look(b).class}`} /> {phase(b)} <span class="num">{duration(length(b, until))}</span></li>
        ))}
      </ol>
    </section>
  )
}

/** phase names what a step did: an attempt with its end, or what it waited for. */
const phase = (b: Bar): string => (b.activity === 'running' && b.attempt > 0 ? `Attempt ${b.attempt}: ${look(b).words.toLowerCase()}` : look(b).words)

function Actions({ id, task, step: s, now, live }: StepPanelProps) {
  const [open, setOpen] = useState(false)
  const from = s.key.split(/[.[]/)[0] ?? s.key
  const retries = decides.value && now && (task.state === 'FAILED' || task.state === 'CANCELLED')
  return (
    <div class="actions">
      {retries && <span class="pair"><button type="button" onClick={() => setOpen(true)}>Retry from here…</button><Command text={commands.retry(id, from)} /></span>}
      {s.approval && task.approvals.get(s.approval) === 'pending' && <a class="button primary" href={href(`/inbox/${s.approval}`)}>Decide</a>}
      {live?.kind === 'agent' && <a class="button" href={href(`/tasks/${id}`, { rev: query.value.get('rev') ?? undefined, tab: 'conversation', agent: s.key })}>Conversation</a>}
      {s.child && <a class="button" href={href(`/tasks/${s.child}`)}>Open the child task</a>}
      {terminal(task.state) && decides.value && <a class="button" href={href(`/tasks/${id}`, { fork: from })}>Fork from here…</a>}
      {open && <RetryDialog id={id} task={task} from={from} onClose={() => setOpen(false)} />}
    </div>
  )
}

/** again returns the steps that a retry from a step runs again: the step and all that need it. */
export function again(task: Task, from: string): string[] {
  const all = nodes(task.plan)
  const hit = new Set([from])
  for (let grew = true; grew;) {
    grew = false
    for (const n of all) if (!hit.has(n.id) && n.needs.some((id) => hit.has(id))) { hit.add(n.id); grew = true }
  }
  return [...hit]
}

/** RetryDialog shows what a retry would run again and what it would reuse, and starts it. */
export function RetryDialog({ id, task, from, onClose }: { id: string; task: Task; from: string; onClose: () => void }) {
  const action = useAction()
  const failed = [...task.steps.values()].filter((s) => s.state === 'failed' || s.state === 'cancelled').map((s) => s.key)
  const live = new Set((from ? [from] : failed).flatMap((f) => again(task, f)))
  const reused = [...task.steps.values()].filter((s) => s.state === 'succeeded' && !live.has(s.key.split(/[.[]/)[0] ?? '')).map((s) => s.key)
  const risky = [...live].filter((k) => ['write', 'destructive'].includes(task.steps.get(k)?.effect ?? '') && task.steps.get(k)?.state === 'succeeded')
  const start = async () => {
    let next = id
    const ok = await action.run(async () => { next = (await steer(id, from ? `retry from ${from}` : 'retry', task.rev, () => post<SubmitReply>(`/tasks/${id}/retry`, { seen_rev: task.rev, ...(from ? { from } : {}) }))).id })
    if (!ok) return openSteer(id) ? onClose() : undefined // the page of the task says that the outcome is not known
    announce('A new task continues.')
    onClose()
    go(href(`/tasks/${next}`))
  }
  return (
    <Dialog title={from ? `Retry from ${from}` : 'Retry the task'} onClose={onClose}>
      <p>A new task runs these steps again: <b><Txt>{[...live].join(', ') || 'none'}</Txt></b>, and steps that have not started.</p>
      <p>It reuses the recorded results of {reused.length} {reused.length === 1 ? 'step' : 'steps'}{reused.length > 0 && <>: <Txt>{reused.slice(0, 12).join(', ')}</Txt>{reused.length > 12 && ' …'}</>}.</p>
      {risky.length > 0 && <p class="note">These succeeded and have effects that would happen again: <Txt>{risky.join(', ')}</Txt></p>}
      <Problem of={action.problem} />
      <div class="actions">
        <span class="pair"><button type="button" class="primary" disabled={action.busy || openSteer(id) !== undefined} onClick={() => void start()}>{from ? `Retry from ${from}` : 'Retry'}</button><Command text={commands.retry(id, from)} /></span>
      </div>
    </Dialog>
  )
}
