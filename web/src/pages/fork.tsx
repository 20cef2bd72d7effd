import { useState } from 'preact/hooks'
import type { Json, SubmitReply, TaskView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { forkLines, typedLike, type ForkReply } from '../forks.ts'
import { count } from '../format.ts'
import { record } from '../json.ts'
import { go, href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'

interface ForkProps { task: TaskView; at: string; steps: string[]; live: string; onClose: () => void }

/** ForkDialog starts a new task that stands on the recorded results of another one up to a revision. It first shows what it reuses. */
export function ForkDialog({ task, at: from, steps, live: first, onClose }: ForkProps) {
  const [at, setAt] = useState(from)
  const [live, setLive] = useState(first)
  const [set, setSet] = useState<Record<string, string>>({})
  const [repeat, setRepeat] = useState(false)
  const [dry, setDry] = useState<ForkReply>()
  const action = useAction()
  const inputs = Object.entries(record(task.inputs) ?? {})
  const changed = inputs.flatMap(([name, was]): [string, Json][] => (set[name] ? [[name, typedLike(was, set[name])]] : []))
  const body = { at, set: Object.fromEntries(changed), live_from: live, repeat: repeat ? ['all'] : [] }
  const preview = (e: Event) => {
    e.preventDefault()
    void action.run(async () => setDry(await post<ForkReply>(`/tasks/${task.id}/fork`, { ...body, dry_run: true })))
  }
  const start = async () => {
    let id = ''
    if (!(await action.run(async () => { id = (await post<SubmitReply>(`/tasks/${task.id}/fork`, body)).id }))) return
    announce('Forked.')
    go(href(`/tasks/${id}`))
  }
  const change = (f: () => void) => { f(); setDry(undefined) }
  return (
    <Dialog title="Fork this task" onClose={onClose} wide routed>
      <p class="quiet">A fork is a new task of the same plan. It takes the recorded results before the cut, and runs live after it. What had effects is not repeated silently.</p>
      <form class="decide" onSubmit={preview}>
        <div class="row top">
          <div class="field half">
            <label for="fork-at">Cut at revision or step</label>
            <input id="fork-at" value={at} aria-describedby="fork-at-about" onInput={(e) => change(() => setAt(e.currentTarget.value))} />
            <p class="quiet small" id="fork-at-about">Results before the cut are reused. The step at the cut runs again, with all that need it.</p>
          </div>
          <div class="field half">
            <label for="fork-live">Live from step</label>
            <select id="fork-live" value={live} aria-describedby="fork-live-about" onChange={(e) => change(() => setLive(e.currentTarget.value))}><option value="">the cut</option>{steps.map((s) => <option key={s} value={s}>{s}</option>)}</select>
            <p class="quiet small" id="fork-live-about">Steps from there run again, too, even if they have results before the cut.</p>
          </div>
        </div>
        {inputs.map(([name, value]) => (
          <div class="field" key={name}><label for={`fork-${name}`}>Input <Txt>{name}</Txt></label><input id={`fork-${name}`} placeholder={typeof value === 'string' ? value : JSON.stringify(value)} value={set[name] ?? ''} onInput={(e) => change(() => setSet({ ...set, [name]: e.currentTarget.value }))} /></div>
        ))}
        <label class="check"><input type="checkbox" checked={repeat} onChange={(e) => setRepeat(e.currentTarget.checked)} /> Allow calls with effects to happen again</label>
        {dry && <Described of={dry} allowed={repeat} />}
        <Problem of={action.problem} />
        <div class="actions">
          {dry === undefined
            ? <button class="primary" disabled={action.busy}>Preview</button>
            : <button type="button" class="primary" disabled={action.busy || ((dry.repeats ?? []).length > 0 && !repeat)} onClick={() => void start()}>Fork</button>}
          <Command text={commands.fork(task.id, at, changed, live, repeat)} />
        </div>
      </form>
    </Dialog>
  )
}

/** Described says what a fork would do. */
function Described({ of, allowed }: { of: ForkReply; allowed: boolean }) {
  return (
    <section aria-label="What the fork would do">
      <h3>What the fork would do</h3>
      <p>stands on revision {count(of.at)}</p>
      <dl class="facts lines">
        {forkLines(of).map((l) => <div key={l.what}><dt>{l.what}</dt><dd><Txt>{l.names.join(', ')}</Txt> <span class="quiet small">{l.means}</span></dd></div>)}
      </dl>
      {(of.repeats ?? []).length > 0 && !allowed && <p class="note">The node refuses this fork until you allow those calls to happen again, above.</p>}
    </section>
  )
}
