import { useState } from 'preact/hooks'
import type { ScheduleView, SteerScheduleReply } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { plural } from '../format.ts'
import { decides } from '../node.ts'
import { go, href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { useAction } from '../ui/use.ts'

/** ScheduleActions pauses, resumes, triggers and deletes a schedule. */
export function ScheduleActions({ of: s, onChange }: { of: ScheduleView; onChange: () => void }) {
  const action = useAction(onChange)
  const [deleting, setDeleting] = useState(false)
  if (!decides.value) return null
  const act = async (what: string, said: (r: SteerScheduleReply) => string) => {
    const done = await action.run(async () => announce(said(await post<SteerScheduleReply>(`/schedules/${encodeURIComponent(s.name)}/${what}`, {}))))
    if (done) onChange()
  }
  return (
    <>
      <div class="actions" role="group" aria-label="Actions">
        <span class="pair"><button class="primary" disabled={action.busy} onClick={() => void act('trigger', (r) => (r.task ? `Started ${r.task}.` : 'It waits for another task.'))}>Start a task now</button><Command text={commands.scheduleTrigger(s.name)} /></span>
        {s.paused
          ? <span class="pair"><button disabled={action.busy} onClick={() => void act('resume', () => 'Resumed.')}>Resume</button><Command text={commands.scheduleResume(s.name)} /></span>
          : <span class="pair"><button disabled={action.busy} onClick={() => void act('pause', () => 'Paused.')}>Pause</button><Command text={commands.schedulePause(s.name)} /></span>}
        <span class="pair"><button disabled={action.busy} onClick={() => setDeleting(true)}>Delete…</button><Command text={commands.scheduleDelete(s.name)} /></span>
      </div>
      <Problem of={action.problem} />
      {deleting && <Delete of={s} onClose={() => setDeleting(false)} onDone={onChange} />}
    </>
  )
}

function Delete({ of: s, onClose, onDone }: { of: ScheduleView; onClose: () => void; onDone: () => void }) {
  const action = useAction()
  const erase = async () => {
    if (!(await action.run(() => post(`/schedules/${encodeURIComponent(s.name)}/delete`, {})))) return
    announce('Deleted.')
    onClose()
    go(href('/schedules'))
    onDone()
  }
  return (
    <Dialog title={`Delete the schedule ${s.name}?`} onClose={onClose}>
      <p>Its definition and the list of its firings are lost. Its tasks stay{s.running.length > 0 && `; ${plural(s.running.length, 'running task')} of it will go on`}.</p>
      <Problem of={action.problem} />
      <div class="actions"><button class="primary" disabled={action.busy} onClick={() => void erase()}>Delete</button></div>
    </Dialog>
  )
}
