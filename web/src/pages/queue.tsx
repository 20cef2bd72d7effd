import type { PauseView, QueueReply, QueuedTask, WorkerView } from '../api.ts'
import { count, nanoseconds, words } from '../format.ts'
import { status, decides } from '../node.ts'
import { href } from '../route.ts'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { State } from '../ui/state.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { ResumeButton } from './nodepause.tsx'

/** QueuePage shows what waits for a worker, the workers, and what is paused. */
export function QueuePage() {
  useTitle('Queue')
  const queue = useGet<QueueReply>('/queue', { include_assigned: true, limit: 100 }, live)
  if (!queue.data) return queue.problem ? <Problem of={queue.problem} /> : <Loading />
  const { stats } = queue.data
  const tasks = queue.data.tasks ?? []
  const figures: [string, string][] = [
    ['Open', count(stats.total)], ['Pending', count(stats.pending)], ['Assigned', count(stats.assigned)], ['In progress', count(stats.in_progress)],
    ['Blocked', count(stats.blocked)], ['Average wait', nanoseconds(stats.wait)],
  ]
  return (
    <div class="scroll">
      <h1>Queue</h1>
      <dl class="figures">{figures.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <p class="quiet small">Pending are the tasks that need action, Blocked those that are blocked or wait for an approval. What no worker can take is in the <a href={href('/inbox', { kind: 'stuck' })}>inbox</a>.</p>
      <Pauses of={status.value?.paused ?? []} />
      <h2>Workers</h2>
      <Workers of={status.value?.workers ?? []} />
      <h2>Open tasks, the most urgent first</h2>
      {tasks.length === 0 ? <Empty title="Nothing is open." /> : <Tasks of={tasks} />}
      {stats.total > tasks.length && <p class="quiet">The first {tasks.length} of {count(stats.total)}. <a href={href('/tasks')}>All tasks</a></p>}
    </div>
  )
}

/** Pauses lists the pauses of the node, and ends them. */
export function Pauses({ of }: { of: PauseView[] }) {
  if (of.length === 0) return null
  return (
    <section class="note" aria-label="Pauses">
      <ul class="plainlist">
        {of.map((p) => (
          <li key={p.kind + p.name}>
            <b>{words(p.kind)} {p.name && <code><Txt>{p.name}</Txt></code>} is paused</b> <span class="quiet">by <Txt>{p.by || 'unknown'}</Txt>, <Ago at={p.at} />{p.reason && <>: <Txt>{p.reason}</Txt></>}</span>
            {decides.value && <ResumeButton of={p} />}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** Workers lists the workers of the node. */
export function Workers({ of }: { of: WorkerView[] }) {
  if (of.length === 0) return <Empty title="No worker is connected.">Calls wait until one is: orch worker</Empty>
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Workers">
      <table>
        <thead><tr><th>Worker</th><th>Queues</th><th class="num">Running</th><th>Seen</th></tr></thead>
        <tbody>{of.map((w) => (
          <tr key={w.name}>
            <td data-label="Worker"><Txt>{w.name}</Txt></td><td data-label="Queues"><Txt>{(w.queues ?? []).join(', ') || 'default'}</Txt></td>
            <td class="num" data-label="Running">{w.running}</td>
            <td data-label="Seen"><span><span class={`state ${w.silent ? 'bad' : 'good'}`}>{w.silent ? 'Silent' : 'Online'}</span> <Ago at={w.seen_at} /></span></td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  )
}

function Tasks({ of }: { of: QueuedTask[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Open tasks">
      <table>
        <thead><tr><th>State</th><th>Task</th><th>Waits for</th><th>Priority</th><th>Who</th><th>Age</th></tr></thead>
        <tbody>
          {of.map((t) => (
            <tr key={t.id}>
              <td data-label="State"><State of={t.state} paused={t.paused} /></td>
              <td data-label="Task"><a href={href(`/tasks/${t.id}`)}><Line>{t.name || t.id}</Line></a></td>
              <td class="quiet" data-label="Waits for"><Line>{t.reason || '–'}</Line></td>
              <td data-label="Priority">{t.priority}</td>
              <td data-label="Who"><Txt>{t.assigned_to || t.type || '–'}</Txt></td>
              <td class="num" data-label="Age"><Ago at={t.created_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
