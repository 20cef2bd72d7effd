// What waits for a person, read from the node: approvals, questions, steps in doubt, the dead letter, stuck tasks.
import { signal } from '@preact/signals'
import type { ApprovalView, ApprovalsReply, Json, ListReply, QuestionView, QuestionsReply, Summary } from './api.ts'
import { get } from './client.ts'
import { record, text } from './json.ts'
import { unknownIn, type Wrong } from './refused.ts'

/** until is when it is too late for an answer. */
interface Base { id: string; task: string; title: string; taskName: string; since: string; until?: string }
export type Item =
  | (Base & { kind: 'approval'; approval: ApprovalView })
  | (Base & { kind: 'question'; question: QuestionView })
  /** asked are the approvals that nobody decided in time. */
  | (Base & { kind: 'doubt' | 'dead' | 'stuck'; summary: Summary; asked: ApprovalView[] })
export type Kind = Item['kind']

export interface Inbox { items: Item[]; omitted: number; unread: number }

export const kindNames: Record<Kind, string> = { approval: 'Approvals', question: 'Questions', doubt: 'In doubt', dead: 'Dead letter', stuck: 'Stuck' }

/** settling is how long a node that has started may need to find out what is stuck, in milliseconds: a call that waits is stuck after 10 s. */
const settling = 15_000

/** findingOut says that a node has started too short a time ago to know all that waits for people, or ''. */
export function findingOut(startedAt: string | undefined, now: number): string {
  const age = now - Date.parse(startedAt ?? '')
  return age < settling ? `The node has started ${Math.max(0, Math.floor(age / 1000))} s ago and is still finding out what is stuck.` : ''
}

/** wrongOf returns what is wrong with the filter of an address. */
export const wrongOf = (q: URLSearchParams): Wrong[] => unknownIn(q, { kind: Object.keys(kindNames) })

const none: Record<Kind, string> = {
  approval: 'No approvals wait.', question: 'No questions wait.', doubt: 'No calls are in doubt.', dead: 'The dead letter is empty.', stuck: 'No tasks are stuck.',
}

/** nothingOf says that nothing waits, or nothing of a kind. */
export const nothingOf = (kind: Kind | null): string => (kind ? none[kind] : 'Nothing waits for you.')

/** inboxRound changes when the node says that the inbox has changed. */
export const inboxRound = signal(0)

/** rule says in which order the entries are. */
export const rule = 'Most urgent first: what ends soonest, then what waits longest.'

/** byUrgency is the order of all entries, of whatever kind. Within one second those of a batch are in the order in which their tasks were submitted. */
export function byUrgency(a: Item, b: Item): number {
  const end = (i: Item): number => (i.until ? seconds(i.until) : Infinity)
  return compare(end(a), end(b)) || compare(seconds(a.since), seconds(b.since)) || compare(a.task, b.task) || compare(stepOf(a), stepOf(b)) || compare(a.id, b.id)
}

const seconds = (at: string): number => Math.floor(Date.parse(at) / 1000)

const stepOf = (i: Item): string => (i.kind === 'approval' ? i.approval.step ?? '' : i.kind === 'question' ? i.question.step : '')

const compare = <T extends string | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

/** readInbox reads all of it, the most urgent first. */
export async function readInbox(abort: AbortSignal): Promise<Inbox> {
  const [approvals, questions, dead, stuck] = await Promise.all([
    get<ApprovalsReply>('/approvals', {}, abort), get<QuestionsReply>('/questions', {}, abort),
    get<ListReply>('/tasks', { dead: true, limit: 1000 }, abort), get<ListReply>('/tasks', { stuck: true, limit: 1000 }, abort),
  ])
  const asking = new Set((questions.questions ?? []).map((q) => q.task))
  const late = await readLate(dead.tasks ?? [], abort)
  const items = [
    ...(approvals.approvals ?? []).map(ofApproval),
    ...(questions.questions ?? []).map(ofQuestion),
    ...(dead.tasks ?? []).filter((t) => !(t.block === 'input' && asking.has(t.id))).map((t) => ofTask(t, late.get(t.id) ?? [])),
    ...(stuck.tasks ?? []).map(ofStuck),
  ]
  items.sort(byUrgency)
  return { items, omitted: (approvals.omitted ?? 0) + (questions.omitted ?? 0), unread: Math.max(approvals.unread ?? 0, questions.unread ?? 0) }
}

/** readLate reads the approvals that nobody decided in time, by the tasks that they block. */
async function readLate(dead: Summary[], abort: AbortSignal): Promise<Map<string, ApprovalView[]>> {
  const by = new Map<string, ApprovalView[]>()
  if (!dead.some((t) => t.state === 'BLOCKED')) return by
  const late = await get<ApprovalsReply>('/approvals', { expired: true }, abort)
  for (const a of late.approvals ?? []) by.set(a.task, [...(by.get(a.task) ?? []), a])
  return by
}

/** telling are the arguments that say most about a call. */
const telling = ['command', 'file_path', 'path', 'url', 'query', 'statement', 'message']

/** gist returns the argument of a call that says most, in one line. */
function gist(args: Json): string {
  const all = record(args) ?? {}
  const name = [...telling, ...Object.keys(all)].find((n) => text(all[n]) !== '')
  return name ? text(all[name]).replace(/\s+/g, ' ') : ''
}

/** askedFor says in one line what an approval asks for: what its author wrote, or what the call would do. */
export function askedFor(a: ApprovalView): string {
  const what = a.tool && a.description === `allow ${a.tool} in step ${a.step}` ? gist(a.args) : ''
  return what ? `allow ${a.tool}: ${what}` : a.description
}

const ofApproval = (a: ApprovalView): Item =>
  ({ kind: 'approval', id: a.id, task: a.task, title: askedFor(a), taskName: a.task_name, since: a.requested_at, until: a.expires_at, approval: a })

const ofQuestion = (q: QuestionView): Item =>
  ({ kind: 'question', id: q.id, task: q.task, title: text(record(q.params)?.['message']) || `${q.kind} of ${q.step}`, taskName: q.task_name, since: q.asked_at, until: q.expires_at, question: q })

const ofStuck = (t: Summary): Item =>
  ({ kind: 'stuck', id: t.id, task: t.id, title: t.reason || 'No worker takes a call of this task', taskName: t.name, since: t.updated_at, summary: t, asked: [] })

/** ofTask makes a blocked task that waits for input, but not for an answer, one in doubt. */
const ofTask = (t: Summary, asked: ApprovalView[]): Item => ({
  kind: t.state === 'BLOCKED' && t.block === 'input' ? 'doubt' : 'dead', id: t.id, task: t.id, taskName: t.name, since: t.updated_at, summary: t, asked,
  title: asked[0] ? `Nobody decided: ${askedFor(asked[0])}` : t.reason || t.state,
})
