import { useMemo } from 'preact/hooks'
import { commands } from '../commands.ts'
import type { Step, Task } from '../fold.ts'
import { clock, plural } from '../format.ts'
import { rowsUntil, type History } from '../history.ts'
import { text } from '../json.ts'
import { narrow } from '../node.ts'
import { href } from '../route.ts'
import { Empty } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Virtual } from '../ui/virtual.tsx'
import { Value } from './value.tsx'

interface LogsProps { id: string; history: History; version: number; rev: number; task: Task }

/** Logs lists what the task logged, or what its steps returned if it logged nothing. */
export function Logs({ id, history, version, rev, task }: LogsProps) {
  const rows = useMemo(() => history.rows.slice(0, rowsUntil(history.rows, rev)).filter((r) => r.event.kind === 'log.written'), [history, version, rev])
  if (rows.length === 0) return <><Parts of={task} /><Outputs id={id} of={task} /></>
  return (
    <>
      <Parts of={task} />
      <Virtual
        items={rows} height={narrow.value ? 48 : 28} label="Logs" class="table log"
        row={(r) => {
          const level = text(r.event.data['level'])
          return (
            <>
              <span class={`level ${level.toLowerCase()}`}>{level}</span>
              <time>{clock(r.at)}</time>
              <b class="cut"><Line>{text(r.event.data['step'])}</Line></b>
              <span class="cut" title={text(r.event.data['message'])}><Line>{text(r.event.data['message'])}</Line></span>
            </>
          )
        }}
      />
    </>
  )
}

const most = 100

/** Parts leads to the logs of the tasks that steps have started: child tasks, and the parts of a long loop. */
function Parts({ of: task }: { of: Task }) {
  const parts = [...task.steps.values()].filter((s) => s.child)
  if (parts.length === 0) return null
  return (
    <nav class="note" aria-label="Logs of other tasks">
      {plural(parts.length, 'step')} of it {parts.length === 1 ? 'is a task' : 'are tasks'} with a log of {parts.length === 1 ? 'its' : 'their'} own:{' '}
      {parts.slice(0, most).map((s, i) => <span key={s.key}>{i > 0 && ', '}<a href={href(`/tasks/${s.child}`, { tab: 'logs' })}><Line>{s.key}</Line></a></span>)}
      {parts.length > most && ` and ${plural(parts.length - most, 'more')}`}
    </nav>
  )
}

/** Outputs shows what the steps of a task without a log have returned. */
function Outputs({ id, of: task }: { id: string; of: Task }) {
  const steps = [...task.steps.values()].filter((s) => s.output !== undefined || s.error)
  const nothing = 'Only LOG_WRITE and NOTIFICATION_SEND write to this log.'
  if (steps.length === 0) return <Empty title="The task has logged nothing.">{nothing} No step has returned anything yet.</Empty>
  return (
    <div class="data">
      <p class="note">The task has logged nothing. {nothing} This is what its steps have returned:</p>
      {steps.slice(0, most).map((s) => <Returned key={s.key} id={id} of={s} />)}
      {steps.length > most && <p class="quiet">and {plural(steps.length - most, 'more step')}: open them in the timeline.</p>}
    </div>
  )
}

function Returned({ id, of: s }: { id: string; of: Step }) {
  return (
    <section>
      <h2><Txt>{s.key}</Txt> {s.tool && <code><Txt>{s.tool}</Txt></code>}</h2>
      {s.error && <div class="problem"><p><Txt>{s.error.message}</Txt> <code>{s.error.name}</code></p></div>}
      {s.output !== undefined && <Value task={id} value={s.output} label={`output of ${s.key}`} command={commands.output(id, s.key)} />}
    </section>
  )
}
