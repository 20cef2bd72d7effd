import { useState } from 'preact/hooks'
import { Fault } from '../client.ts'
import { orch } from '../reach.ts'
import { go, href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Txt } from '../ui/text.tsx'

/** isMissing reports whether a task could not be read because there is none with that id. */
export const isMissing = (problem: unknown): boolean => problem instanceof Fault && (problem.status === 404 || (problem.status === 400 && problem.field === 'id'))

/** Missing says that there is no task with an id, and helps to find the right one. */
export function Missing({ task }: { task: string }) {
  const [name, setName] = useState('')
  const search = (e: Event) => { e.preventDefault(); go(href('/tasks', { name })) }
  return (
    <div class="scroll">
      <h1>There is no such task</h1>
      <p>You asked for <code><Txt>{task}</Txt></code>. This node has no task with that id, or you may not see it.</p>
      <ul class="plainlist bullets">
        <li>An id is <code>TASK_</code> and 26 letters and digits. The end of a copied one may be missing.</li>
        <li>The task may be on another node, or of another data directory.</li>
        <li>Old tasks are removed when the retention of the node says so; an export file of them can be imported.</li>
      </ul>
      <form class="row" role="search" onSubmit={search}>
        <div class="field grow"><label for="missing-name">Find it by its name</label><input id="missing-name" required value={name} placeholder="nightly-*" onInput={(e) => setName(e.currentTarget.value)} /></div>
        <span class="pair"><button class="primary">Search</button><Command text={orch('list', '--name', name || '*')} /></span>
      </form>
      <p><a href={href('/tasks')}>All tasks</a>, the newest first; <code>{orch('list')}</code> prints the same.</p>
    </div>
  )
}
