import { useState } from 'preact/hooks'
import { commands } from '../commands.ts'
import { bytes, count, plural } from '../format.ts'
import { isDue, keptFor, type RetentionReply, type RetentionRule, type RetentionTask } from '../retention.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Loading, Problem } from '../ui/notice.tsx'
import { State } from '../ui/state.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Past } from '../ui/time.tsx'
import { useGet } from '../ui/use.ts'

/** Retention says what the node would remove now. It asks the node when somebody wants to know: the answer reads histories. */
export function Retention() {
  const [asked, setAsked] = useState(false)
  const read = useGet<RetentionReply>(asked ? '/retention' : '', { tasks: 20 })
  return (
    <section class="stack" aria-labelledby="retention">
      <h2 id="retention">Retention</h2>
      <p class="quiet">The node removes old archived tasks and workspaces by its rules. Looking removes nothing.</p>
      <div class="actions"><span class="pair"><button type="button" onClick={() => (asked ? read.reload() : setAsked(true))}>What would be removed now?</button><Command text={commands.retain()} /></span></div>
      {asked && !read.data && !read.problem && <Loading />}
      <Problem of={read.problem} />
      <div role="status" class="stack">{read.data && <Due of={read.data} />}</div>
    </section>
  )
}

function Due({ of: r }: { of: RetentionReply }) {
  return (
    <>
      {!isDue(r) && <p>Nothing is due.</p>}
      <Rules of={r.rules} />
      {r.held > 0 && <p>{plural(r.held, 'task')} would be due, but {r.held === 1 ? 'is' : 'are'} held.</p>}
      {r.with_family > 0 && <p>{plural(r.with_family, 'task')} would be due, but another task of the family is not.</p>}
      {r.outside && <p>Before a task is removed, it is archived in <code><Txt>{r.outside}</Txt></code>.</p>}
      {r.tasks.length > 0 && <Tasks of={r.tasks} />}
    </>
  )
}

function Rules({ of }: { of: RetentionRule[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Rules of retention">
      <table class="roomy">
        <thead><tr><th>Rule</th><th>Tasks of</th><th>Kept if done</th><th>Kept otherwise</th><th>Tasks due</th><th>Workspaces due</th></tr></thead>
        <tbody>
          {of.map((r) => (
            <tr key={r.rule}>
              <th scope="row" data-label="Rule">{r.rule || '–'}</th>
              <td data-label="Tasks of"><Txt>{r.where}</Txt></td>
              <td data-label="Kept if done"><Kept task={r.done} workspace={r.workspaces} /></td>
              <td data-label="Kept otherwise"><Kept task={r.failed} workspace={r.failed_workspaces} /></td>
              <td data-label="Tasks due">{count(r.due_tasks)}{r.due_tasks > 0 && <span class="quiet small">, {r.estimated && 'about '}{bytes(r.due_bytes)}</span>}</td>
              <td data-label="Workspaces due">{count(r.due_workspaces)}{r.due_workspaces > 0 && <span class="quiet small">, {bytes(r.due_workspace_bytes)}</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const Kept = ({ task, workspace }: { task: number; workspace: number }) => <>{keptFor(task)}<div class="quiet small">workspaces {keptFor(workspace)}</div></>

function Tasks({ of }: { of: RetentionTask[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Tasks that are due">
      <table>
        <thead><tr><th>State</th><th>Task</th><th>Rule</th><th>Its time began</th></tr></thead>
        <tbody>
          {of.map((t) => (
            <tr key={t.id}>
              <td data-label="State"><State of={t.state} /></td>
              <td data-label="Task"><a href={href(`/tasks/${t.id}`)}><Line>{t.name || t.id}</Line></a></td>
              <td data-label="Rule">{t.rule || '–'}</td>
              <td data-label="Its time began"><Past at={t.at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
