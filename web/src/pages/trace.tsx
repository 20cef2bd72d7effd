import type { TaskView, Trace } from '../api.ts'
import { commands } from '../commands.ts'
import { terminal } from '../fold.ts'
import { status } from '../node.ts'
import { Command, Copy } from '../ui/copy.tsx'
import { Problem } from '../ui/notice.tsx'
import { useGet } from '../ui/use.ts'

/** anyCollector is where a collector on this machine listens. */
const anyCollector = 'http://127.0.0.1:4318'

const useTrace = (task: string) => useGet<Trace>(task && `/tasks/${task}/trace`, { limit: '1' })

/** viewOf returns the URL of a trace in the tracing backend of the settings, or '' if there is none. */
const viewOf = (trace: string): string => (status.value?.traces?.view ?? '').replaceAll('{trace}', trace)

/** TraceLink leads to the trace of a task, if the node knows a tracing backend. */
export function TraceLink({ task }: { task: string }) {
  const { data } = useTrace(viewOf('') && task)
  const to = data ? viewOf(data.trace) : ''
  return to ? <a href={to} target="_blank" rel="noopener noreferrer" title="in the tracing backend, in another window">trace</a> : null
}

/** TraceOf names the trace of a task, and how its spans get to a backend. */
export function TraceOf({ of: t }: { of: TaskView }) {
  const { data, problem } = useTrace(t.id)
  const to = status.value?.traces?.to
  return (
    <section>
      <h2>Trace <Command text={commands.traceExport(t.id, to ?? anyCollector)} /></h2>
      <Problem of={problem} />
      {data && <p class="facts-line"><span><code>{data.trace}</code> <Copy text={data.trace} label="Copy the id of the trace">Copy</Copy></span> <TraceLink task={t.id} /></p>}
      <p class="quiet">{sent(to, terminal(t.state))}</p>
    </section>
  )
}

/** sent says when the spans of a task get to a collector. */
function sent(to: string | undefined, over: boolean): string {
  if (to) return over ? `The node sends the spans of finished tasks to ${to}.` : `The node sends the spans to ${to} when the task has ended.`
  return over ? 'The command sends its spans to a collector.' : 'The command sends the spans that have ended to a collector.'
}
