import { useState } from 'preact/hooks'
import type { TaskView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { decides } from '../node.ts'
import type { Hold, HoldsReply } from '../retention.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { Txt } from '../ui/text.tsx'
import { Past } from '../ui/time.tsx'
import { live, useAction, useGet } from '../ui/use.ts'

const shown = 100

/** Holds lists the holds of the node, or the last ones that have ended. */
export function Holds() {
  const [released, setReleased] = useState(false)
  const read = useGet<HoldsReply>('/holds', { limit: shown, released }, live)
  const holds = read.data?.holds ?? []
  return (
    <section class="stack" aria-labelledby="holds">
      <h2 id="holds">Holds <Command text={commands.holdList(released)} /></h2>
      <p class="quiet">A held task stays with its family and its workspaces, whatever the rules say. Hold one on its page.</p>
      <label class="check"><input type="checkbox" checked={released} onChange={(e) => setReleased(e.currentTarget.checked)} /> Those that have ended</label>
      <Problem of={read.problem} />
      {!read.data && !read.problem && <Loading />}
      {read.data && holds.length === 0 && <Empty title={released ? 'No hold has ended.' : 'No task is held.'}>{!released && <>Hold one on its page, or with <code>{commands.hold('TASK', '…')}</code></>}</Empty>}
      {holds.length > 0 && <Table of={holds} released={released} onChange={read.reload} />}
      {read.data?.next && <p class="quiet">The first {shown}. All of them: <code>{commands.holdList(released)}</code></p>}
    </section>
  )
}

function Table({ of, released, onChange }: { of: Hold[]; released: boolean; onChange: () => void }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Holds">
      <table class="roomy">
        <thead><tr><th>Task</th><th>Reason</th><th>Held</th>{released && <th>Ended</th>}{!released && decides.value && <th>Release</th>}</tr></thead>
        <tbody>
          {of.map((h) => (
            <tr key={h.task + h.reason + (h.released?.at ?? '')}>
              <th scope="row" data-label="Task"><a href={href(`/tasks/${h.task}`)}><code>{h.task}</code></a>{h.family !== h.task && <div class="quiet small">of the family of <a href={href(`/tasks/${h.family}`)}><code>{h.family}</code></a></div>}</th>
              <td data-label="Reason"><Txt>{h.reason}</Txt></td>
              <td data-label="Held"><Past at={h.at} /> by <Txt>{h.by}</Txt></td>
              {h.released && <td data-label="Ended"><Past at={h.released.at} /> by <Txt>{h.released.by}</Txt>{h.released.note && <div class="quiet small"><Txt>{h.released.note}</Txt></div>}</td>}
              {!released && decides.value && <td data-label="Release"><ReleaseButton of={h} onChange={onChange} /></td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** HoldsOf says who holds a task or another one of its family, and why. */
export function HoldsOf({ task: t, onChange }: { task: TaskView; onChange: () => void }) {
  const holds = t.holds ?? []
  if (holds.length === 0) return null
  return (
    <section class="note" aria-label="Holds">
      <ul class="plainlist">
        {holds.map((h) => (
          <li key={h.task + h.reason}>
            <b>Held: <Txt>{h.reason}</Txt></b> <span class="quiet">by <Txt>{h.by}</Txt>, <Past at={h.at} />{h.task !== t.id && <>, through <a href={href(`/tasks/${h.task}`)}>a task of its family</a></>}</span>
            {decides.value && <ReleaseButton of={h} onChange={onChange} />}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** HoldButton holds a task for a reason. */
export function HoldButton({ task, onChange }: { task: string; onChange: () => void }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Hold…</button>
      {open && <HoldDialog task={task} onClose={() => setOpen(false)} onChange={onChange} />}
    </>
  )
}

function HoldDialog({ task, onClose, onChange }: { task: string; onClose: () => void; onChange: () => void }) {
  const action = useAction()
  const reason = useReason('hold-reason')
  const hold = async () => {
    if (!reason.ask() || !(await action.run(() => post('/holds', { ids: [task], reason: reason.text.trim() })))) return
    announce('Held.')
    onClose()
    onChange()
  }
  return (
    <Dialog title="Hold this task?" onClose={onClose}>
      <p>It stays with its family and its workspaces until the hold is released, whatever the rules of retention say.</p>
      <ReasonField of={reason} about="needed, and recorded with who holds it and when" wanted="Write why, such as the number of the case." />
      <Problem of={action.problem} />
      <div class="actions"><span class="pair"><button type="button" class="primary" disabled={action.busy} onClick={() => void hold()}>Hold</button><Command text={commands.hold(task, reason.text.trim())} /></span></div>
    </Dialog>
  )
}

/** ReleaseButton ends a hold; others for other reasons stay. */
function ReleaseButton({ of: h, onChange }: { of: Hold; onChange: () => void }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <span class="pair"><button type="button" aria-label={`Release the hold for ${h.reason}`} onClick={() => setOpen(true)}>Release…</button><Command text={commands.holdRelease(h.task, h.reason, '')} /></span>
      {open && <ReleaseDialog of={h} onClose={() => setOpen(false)} onChange={onChange} />}
    </>
  )
}

function ReleaseDialog({ of: h, onClose, onChange }: { of: Hold; onClose: () => void; onChange: () => void }) {
  const action = useAction()
  const note = useReason('release-note')
  const text = note.text.trim()
  const release = async () => {
    const done = await action.run(() => post('/holds/release', { ids: [h.task], reason: h.reason, ...(text ? { note: text } : {}) }))
    onChange()
    if (!done) return
    announce('Released.')
    onClose()
  }
  return (
    <Dialog title="Release this hold?" onClose={onClose}>
      <p>Held by <Txt>{h.by}</Txt>, <Past at={h.at} />: <Txt>{h.reason}</Txt>. Without a hold retention removes the task when it is due; holds for other reasons stay.</p>
      <ReasonField of={note} about="recorded with who releases it" />
      <Problem of={action.problem} />
      <div class="actions"><span class="pair"><button type="button" class="danger" disabled={action.busy} onClick={() => void release()}>Release</button><Command text={commands.holdRelease(h.task, h.reason, text)} /></span></div>
    </Dialog>
  )
}
