import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ApprovalView } from '../api.ts'
import { aborted, get } from '../client.ts'
import { chosen, draftOf, ended, forgetDrafts, keepUnsure, noteLost, took, unsure, type As } from '../decisions.ts'
import { status } from '../node.ts'
import { forgetTruth, learnSteer, openSteer, truthOf } from '../steering.ts'
import { announce } from '../ui/announce.tsx'
import { Txt } from '../ui/text.tsx'
import { later, mayPass } from '../ui/use.ts'

/** pause is how long the page waits until it asks again, in milliseconds. */
const pause = 1000

/** Asking says that it is not known what became of a decision, and asks the node until it answers. */
export function Asking({ of: a, as, onAnswer }: { of: ApprovalView; as: As; onAnswer: (now: ApprovalView) => void }) {
  useEffect(() => {
    const abort = new AbortController()
    const ask = (): void => {
      get<ApprovalView>(`/approvals/${a.id}`, {}, abort.signal).then((now) => { learn(now); onAnswer(now) }, (e: unknown) => {
        if (!aborted(e) && mayPass(e)) later(pause, ask, abort.signal)
      })
    }
    ask()
    return () => abort.abort()
  }, [a.id])
  return (
    <div class="problem" role="alert">
      <p>It is not known whether the node took your decision to {chosen[as]}. This page asks again when the node answers; do not decide again until then.</p>
    </div>
  )
}

/** decided are what became of decisions without an answer, by approval. */
const decided = signal<Record<string, { text: string; took: boolean }>>({})

/** learn compares what the node says about an approval with the decision to which it had not answered. */
function learn(now: ApprovalView): void {
  const as = unsure(now.id)
  if (!as) return
  const mine = took(now, as, status.value?.identity ?? '')
  keepUnsure(now.id, '')
  if (mine) forgetDrafts(draftOf(now))
  else if (now.status !== 'pending') noteLost(now, as, ended(now))
  const text = mine ? `The node took your decision to ${chosen[as]}.` : now.status === 'pending' ? `The node did not take your decision to ${chosen[as]}. It still waits: decide again.` : ''
  if (text) decided.value = { ...decided.value, [now.id]: { text, took: mine } }
  if (text) announce(text)
}

/** Truth says what became of a decision to which the node had not answered at first. */
export function Truth({ of: a }: { of: ApprovalView }) {
  const known = status.value !== undefined
  useEffect(() => { if (known && a.status !== 'pending') learn(a) }, [a.id, a.status, known])
  const is = decided.value[a.id]
  if (!is || (a.status !== 'pending' && !is.took)) return null
  return <p class="note" role="status">{is.text}</p>
}

/** UnsureOf says that it is not known what became of an act on a task, asks the node until it answers, and says then how the task stands. */
export function UnsureOf({ task, onKnown }: { task: string; onKnown: () => void }) {
  const open = openSteer(task)
  useEffect(() => {
    if (!open) return
    const abort = new AbortController()
    const ask = (): void => {
      learnSteer(task, open, abort.signal).then((text) => { announce(text); onKnown() }, (e: unknown) => {
        if (!aborted(e) && mayPass(e)) later(pause, ask, abort.signal)
      })
    }
    ask()
    return () => abort.abort()
  }, [task, open?.verb, open?.rev])
  if (open) return <p class="problem" role="alert">It is not known whether the node took your request to {open.verb}: it has not answered. This page asks again when it answers; do not do it again until then.</p>
  const is = truthOf(task)
  return is ? <p class="note" role="status"><Txt>{is}</Txt> <button type="button" class="link" onClick={() => forgetTruth(task)}>I have read it</button></p> : null
}
