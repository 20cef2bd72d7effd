// Acts of this page on one task to which the node has not answered, so that it is not known whether it has taken them. They outlive a new login, in this tab.
import { signal } from '@preact/signals'
import type { ExplainReply, TaskState, TaskView } from './api.ts'
import { get } from './client.ts'
import { unanswered } from './decisions.ts'
import { draft, keepDraft } from './drafts.ts'
import { words } from './format.ts'

/** Steer is such an act: what was asked for, the revision that somebody has seen before, and the name of the reason that was given. */
export interface Steer { verb: string; rev: number; reason: string }

/** Standing is how a task stands. next says what continues it, '' if nothing does. */
export interface Standing { rev: number; state: TaskState; paused: boolean; next: string }

const nameOf = (task: string): string => `steer/${task}`
const round = signal(0)

/** Kept is what is kept of an act: truth is what became of it, once the node has said so, until somebody has read it. */
interface Kept extends Steer { truth?: string }

function kept(task: string): Kept | undefined {
  void round.value // a component that calls this is drawn again when it changes
  const text = draft(nameOf(task))
  return text ? (JSON.parse(text) as Kept) : undefined
}

function keep(task: string, k: Kept | undefined): void {
  keepDraft(nameOf(task), k ? JSON.stringify(k) : '')
  round.value++
}

/** openSteer returns the act on a task to which the node has not answered. */
export function openSteer(task: string): Steer | undefined {
  const k = kept(task)
  return k?.truth ? undefined : k
}

/** truthOf returns what became of an act on a task, '' if there is nothing to read. */
export const truthOf = (task: string): string => kept(task)?.truth ?? ''

export const forgetTruth = (task: string): void => keep(task, undefined)

/** steer sends an act on a task, and keeps it in mind as long as the node has not answered. reason names the draft of its reason. */
export async function steer<T>(task: string, verb: string, rev: number | undefined, send: () => Promise<T>, reason = ''): Promise<T> {
  if (truthOf(task)) forgetTruth(task)
  try {
    return await send()
  } catch (e) {
    if (unanswered(e)) keep(task, { verb, rev: rev ?? 0, reason })
    throw e
  }
}

/** learnSteer asks how a task stands, and notes what became of the act. */
export async function learnSteer(task: string, s: Steer, abort: AbortSignal): Promise<string> {
  const why = await get<ExplainReply & { state: TaskState }>(`/tasks/${task}/explain`, {}, abort)
  const { rev, paused = false } = await get<TaskView>(`/tasks/${task}`, {}, abort)
  if (rev !== s.rev) keepDraft(s.reason, '')
  const text = truth(s, { rev, paused, state: why.state, next: why.causes?.find((c) => c.kind === 'continued')?.sentence ?? '' })
  keep(task, { ...s, truth: text })
  return text
}

/** truth compares how a task stands with an act. A task stays as it is when it is retried or redriven: what continues it tells. */
export function truth(s: Steer, now: Standing): string {
  const asked = `The node had not answered to your request to ${s.verb}.`
  if (now.next && /^re(try|drive)/.test(s.verb)) return `${asked} ${now.next}`
  if (now.rev !== s.rev) return `${asked} The task has changed since: when the node answered again, it was ${words(now.state).toLowerCase()}${now.paused ? ' and paused' : ''}.`
  return `${asked} It did not take it: the task is as it was. Do it again if it is still wanted.`
}
