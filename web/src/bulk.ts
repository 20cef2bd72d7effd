// Acts on many entries: as one act of the node, which names the set, or one after another for those who may not do that.
import type { ApprovalView, ExplainReply, FaultView, TaskState } from './api.ts'
import { Fault, get, post } from './client.ts'
import { ended } from './decisions.ts'
import { words } from './format.ts'

/** Act is what the node can do to many tasks or approvals at once. */
export type Act = 'cancel' | 'retry' | 'redrive' | 'approve'

/** Outcome is what became of one entry; unknown, if the node has not answered. task is a task that was submitted. */
export interface Outcome { text: string; failed: boolean; unknown?: boolean; task?: string }

interface Item { id: string; result?: string; error?: FaultView }
interface Report { items: Item[] | null; set: string }
interface Progress { count: number; tried: number; ended: boolean }

/** most is how many entries one act may have. */
export const most = 10_000

/** SetOf is what the node would act on now: the ids, and their digest. */
export interface SetOf { ids: Set<string>; digest: string }

const request = (act: Act, ids: string[]) => ({ act, where: { ids }, max: most })

/** look asks which of some entries the node would act on, and changes nothing. */
export async function look(act: Act, ids: string[]): Promise<SetOf> {
  const report = await post<Report>('/tasks:bulk', { ...request(act, ids), dry_run: true })
  return { ids: new Set((report.items ?? []).map((i) => i.id)), digest: report.set }
}

/** far says how far the act with a key is. */
export const far = (key: string, abort?: AbortSignal): Promise<Progress> => get<Progress>('/tasks:bulk', { idempotency_key: key }, abort)

/** doAll acts on a set, if it is still the one with the digest. progress is called with the number of those that were tried. */
export async function doAll(act: Act, ids: string[], digest: string, reason: string, key: string, progress: (tried: number) => void): Promise<Map<string, Outcome>> {
  const timer = setInterval(() => { far(key).then((p) => progress(p.tried), () => {}) }, 500)
  try {
    const report = await post<Report>('/tasks:bulk', { ...request(act, ids), set: digest, idempotency_key: key, ...(reason ? { reason } : {}) })
    return new Map((report.items ?? []).map((i) => [i.id, outcome(i)]))
  } finally {
    clearInterval(timer)
  }
}

const outcome = ({ result = '', error }: Item): Outcome =>
  error ? { text: `${error.name}: ${error.message}`, failed: true } : result.startsWith('TASK_') ? { text: 'goes on as', failed: false, task: result } : { text: words(result).toLowerCase(), failed: false }

/** changedSet reports whether an act was refused because its set is another one by now. */
export const changedSet = (e: unknown): boolean => e instanceof Fault && e.reason === 'SET_CHANGED'

/** otherSet is the same refusal, noticed by the page itself. */
export const otherSet = (): Fault => new Fault(409, { code: 'CONFLICT', reason: 'SET_CHANGED', message: 'the entries have changed' })

/** newKey names one act, so that it is done once. */
export const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')

/** approvalNow says who decided what about an approval. */
export const approvalNow = (id: string): Promise<string> => get<ApprovalView>(`/approvals/${id}`).then(ended)

/** taskNow says how a task stands, and what continues it. */
export async function taskNow(id: string): Promise<string> {
  const why = await get<ExplainReply & { state: TaskState }>(`/tasks/${id}/explain`)
  return why.causes?.find((c) => c.kind === 'continued')?.sentence ?? `it is ${words(why.state).toLowerCase()} now`
}
