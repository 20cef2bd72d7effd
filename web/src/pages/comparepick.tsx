import type { ExplainReply, ListReply, Summary, TaskView } from '../api.ts'
import { ago, words } from '../format.ts'
import { now } from '../node.ts'
import { isTaskID } from '../tasks.ts'
import { Line } from '../ui/text.tsx'
import { useGet } from '../ui/use.ts'

/** Choice is a task to compare with, and what it has to do with the other one. */
interface Choice { id: string; label: string }

const shown = 20

/** Pick offers tasks for a side of a comparison: relatives of the task at the other side and runs of the same plan, or else the newest tasks. */
export function Pick({ id, other, onPick }: { id: string; other: string; onPick: (task: string) => void }) {
  const known = isTaskID(other)
  const task = useGet<TaskView>(known ? `/tasks/${other}` : '')
  const why = useGet<ExplainReply>(known ? `/tasks/${other}/explain` : '')
  const name = task.data?.name ?? ''
  const runs = useGet<ListReply>(known ? (name ? '/tasks' : '') : '/tasks', { name: exactly(name), limit: shown })
  const origin = task.data?.retry_of || task.data?.fork_of || ''
  const before = useGet<TaskView>(origin && `/tasks/${origin}`)
  const related = known ? relatives(task.data, why.data, before.data) : []
  const others = (runs.data?.tasks ?? []).filter((t) => t.id !== other && !related.some((r) => r.id === t.id)).map(run)
  if (related.length + others.length === 0) return null
  return (
    <div class="field">
      <label for={id}>or choose one</label>
      <select id={id} value="" onChange={(e) => { if (e.currentTarget.value) onPick(e.currentTarget.value) }}>
        <option value="">–</option>
        {related.length > 0 && <Group label="Retries and forks" of={related} />}
        {others.length > 0 && <Group label={known ? `Runs of ${name}` : 'The newest tasks'} of={others} />}
      </select>
    </div>
  )
}

const Group = ({ label, of }: { label: string; of: Choice[] }) => (
  <optgroup label={label}>{of.map((c) => <option key={c.id} value={c.id}><Line>{c.label}</Line></option>)}</optgroup>
)

/** exactly makes a name a pattern that matches it alone. */
export const exactly = (name: string): string => name.replace(/[*?[\]\\]/g, '\\$&')

const run = (t: Summary): Choice => ({ id: t.id, label: `${t.name}, ${words(t.state)}, ${when(t.created_at ?? t.updated_at)}, …${t.id.slice(-6)}` })

function when(at: string): string {
  const text = ago(Date.parse(at), now.value)
  return text === 'now' ? 'just now' : `${text} ago`
}

/** relatives are the task that a task continues, before, and those that continue it, the newest first. */
function relatives(t: TaskView | undefined, why: ExplainReply | undefined, before: TaskView | undefined): Choice[] {
  const origin = t?.retry_of || t?.fork_of
  const how = t?.retry_of ? 'retry' : 'fork'
  const first = origin ? [{ id: origin, label: `what it is a ${how} of: ${before?.id === origin ? run({ ...before, updated_at: before.updated_at ?? '' }).label : `…${origin.slice(-6)}`}` }] : []
  const next = (why?.continued ?? []).map((c): Choice => ({ id: c.task, label: `${c.from === t?.id ? 'its' : 'a later'} ${c.how}: ${run({ ...c, id: c.task, updated_at: c.created_at }).label}` }))
  return [...first, ...next.reverse()]
}
