// What waits for a person, read from the node: approvals, questions, steps in doubt, the dead letter, what no worker can go on with.
import { signal } from '@preact/signals'
import type { ApprovalView, ApprovalsReply, ListReply, QuestionView, QuestionsReply, Summary } from './api.ts'
import { get } from './client.ts'
import { record, text } from './json.ts'

/** until is when it is too late for an answer. */
interface Base { id: string; task: string; title: string; taskName: string; since: string; until?: string }
export type Item =
  | (Base & { kind: 'approval'; approval: ApprovalView })
  | (Base & { kind: 'question'; question: QuestionView })
  | (Base & { kind: 'doubt' | 'dead' | 'stuck'; summary: Summary })
export type Kind = Item['kind']

export interface Inbox { items: Item[]; omitted: number; unread: number }

export const kindNames: Record<Kind, string> = { approval: 'Approvals', question: 'Questions', doubt: 'In doubt', dead: 'Dead letter', stuck: 'Needs action' }

/** inboxRound changes when the node says that the inbox has changed. */
export const inboxRound = signal(0)

/** readInbox reads all of it, the most urgent first. */
export async function readInbox(abort: AbortSignal): Promise<Inbox> {
  const [approvals, questions, dead, stuck] = await Promise.all([
    get<ApprovalsReply>('/approvals', {}, abort), get<QuestionsReply>('/questions', {}, abort),
    get<ListReply>('/tasks', { dead: true, limit: 1000 }, abort), get<ListReply>('/tasks', { stuck: true, limit: 1000 }, abort),
  ])
  const asked = new Set((questions.questions ?? []).map((q) => q.task))
  const items = [
    ...(approvals.approvals ?? []).map(ofApproval),
    ...(questions.questions ?? []).map(ofQuestion),
    ...(dead.tasks ?? []).filter((t) => !(t.block === 'input' && asked.has(t.id))).map(ofTask),
    ...(stuck.tasks ?? []).map(ofStuck),
  ]
  const order: Kind[] = ['approval', 'question', 'doubt', 'stuck', 'dead']
  items.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
  return { items, omitted: (approvals.omitted ?? 0) + (questions.omitted ?? 0), unread: Math.max(approvals.unread ?? 0, questions.unread ?? 0) }
}

const ofApproval = (a: ApprovalView): Item =>
  ({ kind: 'approval', id: a.id, task: a.task, title: a.description, taskName: a.task_name, since: a.requested_at, until: a.expires_at, approval: a })

const ofQuestion = (q: QuestionView): Item =>
  ({ kind: 'question', id: q.id, task: q.task, title: text(record(q.params)?.['message']) || `${q.kind} of ${q.step}`, taskName: q.task_name, since: q.asked_at, until: q.expires_at, question: q })

const ofStuck = (t: Summary): Item =>
  ({ kind: 'stuck', id: t.id, task: t.id, title: t.reason || 'No worker takes a call of this task', taskName: t.name, since: t.updated_at, summary: t })

/** ofTask makes a blocked task that waits for input, but not for an answer, one in doubt. */
const ofTask = (t: Summary): Item =>
  ({ kind: t.state === 'BLOCKED' && t.block === 'input' ? 'doubt' : 'dead', id: t.id, task: t.id, title: t.reason || t.state, taskName: t.name, since: t.updated_at, summary: t })
