import { useEffect, useState } from 'preact/hooks'
import type { ApprovalView } from '../api.ts'
import { chosen, draftOf, forgetDrafts, forgetLost, lost } from '../decisions.ts'
import { draft } from '../drafts.ts'
import { moment, words } from '../format.ts'
import { inboxRound } from '../inbox.ts'
import { href } from '../route.ts'
import { Copy } from '../ui/copy.tsx'
import { Txt } from '../ui/text.tsx'
import { mayNot } from './approval.tsx'
import { Continue } from './stuck.tsx'
import { Truth, UnsureOf } from './unsure.tsx'

/** Settled says who decided, or why the reader may not. */
export function Settled({ of: a }: { of: ApprovalView }) {
  if (a.status === 'pending') return <><p class="note">{mayNot(a)}</p><Truth of={a} /></>
  return (
    <>
      <p class="note">
        {words(a.status)}{a.approver && <> by <Txt>{a.approver}</Txt></>}{a.decided_at && <>, {moment(a.decided_at)}</>}{a.reason && <>: <Txt>{a.reason}</Txt></>}
      </p>
      <Truth of={a} />
      <TooLate id={a.id} name={draftOf(a)} expired={a.status === 'expired'} moved={Boolean(a.next)} />
    </>
  )
}

/** goesOn are the rules for an approval without a decision that do not block its task. */
const goesOn = ['reject', 'default', 'continue']

/** WayOut leads to the approval with which the same step asks anew. Without one, it lets a task go on that an approval without a decision has blocked or ended. */
export function WayOut({ of: a, onDone, reload }: { of: ApprovalView; onDone: () => void; reload: () => void }) {
  const [first] = useState(inboxRound.value)
  useEffect(() => { if (a.status === 'expired' && !a.next && inboxRound.value !== first) reload() }, [inboxRound.value])
  if (a.next) return <p>{asksAnew(a)} <a href={href(`/inbox/${a.next}`)}>Go to the new approval</a></p>
  if (a.status !== 'expired') return null
  const [blocked, failed] = [a.task_state === 'BLOCKED' && !goesOn.includes(a.on_expiry), a.task_state === 'FAILED']
  if (!blocked && !failed) return <p class="quiet">Nobody decided in time. <a href={href(`/tasks/${a.task}`)}>The task</a> has gone on since: {words(a.task_state).toLowerCase()}.</p>
  const after = () => { reload(); onDone() }
  return (
    <section>
      <h3>What to do</h3>
      <p>{blocked ? 'Nobody decided in time, and the task waits.' : 'Nobody decided in time, and the task has failed. A redrive begins it anew with the results that it has, and the call asks again.'}</p>
      <UnsureOf task={a.task} onKnown={after} />
      <Continue of={{ id: a.task, name: a.task_name, state: a.task_state, block: blocked ? 'expired' : '' }} rev={a.task_rev} onDone={after} onStale={after} />
    </section>
  )
}

const asksAnew = (a: ApprovalView): string => (a.status === 'expired' ? 'Nobody decided in time, and the step asks again.' : 'The step has asked again since.')

/** LostOf says the same on the page of a task, which shows only the approvals that wait. */
export function LostOf({ task, waiting }: { task: string; waiting: ApprovalView[] }) {
  const all = Object.entries(lost.value).filter(([id, l]) => l.task === task && !waiting.some((a) => a.id === id))
  return <>{all.map(([id, l]) => <TooLate key={id} id={id} name={l.draft} moved={waiting.some((a) => draftOf(a) === l.draft)} />)}</>
}

/** TooLate says that a decision of this page was not taken, and keeps the reason that was typed for it. moved is set if that is at the next approval of the step. */
function TooLate({ id, name, expired = false, moved }: { id: string; name: string; expired?: boolean; moved: boolean }) {
  const [typed, setTyped] = useState(draft(name))
  const mine = lost.value[id]
  const reason = moved ? '' : typed
  if (!mine && !reason) return null
  const forget = () => {
    if (!moved) forgetDrafts(name)
    setTyped('')
    forgetLost(id)
  }
  return (
    <section class="problem" role="alert">
      <p>{mine ? <>Your decision to {chosen[mine.as]} was not taken: <Txt>{mine.why}</Txt>.</> : `${expired ? 'It has expired.' : 'It is decided.'} What you had written here was not sent.`}</p>
      {reason && <p>You had written: <q><Txt>{reason}</Txt></q> <Copy text={reason} label="Copy your reason">Copy</Copy>{expired && ' It will be at the approval with which the step asks again.'}</p>}
      <button type="button" class="link" onClick={forget}>Forget it</button>
    </section>
  )
}
