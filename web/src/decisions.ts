// Decisions of this page about approvals: those that came too late, and those of which it is not known whether the node has taken them.
import { signal } from '@preact/signals'
import type { ApprovalView } from './api.ts'
import { Fault } from './client.ts'
import { draft, keepDraft } from './drafts.ts'

export type As = 'granted' | 'rejected' | 'revise'

/** chosen is what somebody has chosen, after "to". */
export const chosen: Record<As, string> = { granted: 'approve', rejected: 'reject', revise: 'ask for another version' }

/** draftOf names the reason for a decision. It is that of the step: if its call asks anew, the reason is still there. */
export const draftOf = (a: ApprovalView): string => (a.step ? `decide/${a.task}/${a.step}` : a.id)

/** formOf names the fields of a form, given the name of the reason beside it. */
export const formOf = (reason: string): string => `form/${reason}`

/** forgetDrafts forgets what was written for a decision, given the name of its reason. */
export function forgetDrafts(reason: string): void {
  keepDraft(reason, '')
  keepDraft(formOf(reason), '')
}

/** Lost is a decision that came too late: what was chosen, and what the node said. */
export interface Lost { as: As; why: string; task: string; draft: string }

export const lost = signal<Record<string, Lost>>({})

export function noteLost(a: ApprovalView, as: As, why: string): void {
  lost.value = { ...lost.value, [a.id]: { as, why, task: a.task, draft: draftOf(a) } }
}

export function forgetLost(id: string): void {
  const { [id]: _, ...others } = lost.value
  lost.value = others
}

/** unanswered reports whether an error leaves open what the node has done. */
export const unanswered = (e: unknown): boolean => e instanceof Fault && [0, 502, 504].includes(e.status)

const unsureName = (id: string): string => `unsure/${id}`

/** unsure returns the decision about an approval to which the node has not answered, or ''. It outlives a new login. */
export const unsure = (id: string): As | '' => draft(unsureName(id)) as As | ''

export const keepUnsure = (id: string, as: As | ''): void => keepDraft(unsureName(id), as)

/** took reports whether a node whose approval looks like this has taken the decision of somebody. */
export const took = (a: ApprovalView, as: As, me: string): boolean =>
  (a.votes ?? []).includes(me) || (a.approver === me && a.status === (as === 'granted' ? 'granted' : 'rejected') && (a.disposition === 'revise') === (as === 'revise'))

/** ended says who decided what, or that nobody did. */
export const ended = (a: ApprovalView): string =>
  a.status === 'expired' ? 'nobody decided in time' : a.approver ? `${a.approver} has ${a.disposition === 'revise' ? 'asked for another version' : `${a.status} it`}` : `it is ${a.status}`
