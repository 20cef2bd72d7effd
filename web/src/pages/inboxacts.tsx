import type { ApprovalView, Summary } from '../api.ts'
import { approvalNow, taskNow } from '../bulk.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { keepUnsure, unanswered } from '../decisions.ts'
import { words } from '../format.ts'
import { askedFor, type Item } from '../inbox.ts'
import { decides } from '../node.ts'
import { href } from '../route.ts'
import { Bulk, type Job } from '../ui/bulk.tsx'
import { mayNot } from './approval.tsx'

/** selectable reports whether an entry can be part of an act on many: a question needs an answer of its own. */
export const selectable = (i: Item): boolean => i.kind !== 'question'

/** InboxActs is what can be done to the selected entries together. Each act says which of them it leaves out. differ tells apart those whose rows look the same. */
export function InboxActs({ of: items, differ, onDone }: { of: Item[]; differ: ReadonlyMap<string, string>; onDone: () => void }) {
  if (!decides.value) return null
  const named = (j: Job): Job => ({ ...j, differs: differ.get(j.id) ?? '' })
  const approvals = items.flatMap((i) => (i.kind === 'approval' ? [i.approval] : []))
  const failed = items.flatMap((i) => (i.kind === 'dead' && i.summary.state === 'FAILED' ? [i] : []))
  const open = items.flatMap((i) => ('summary' in i && i.summary.state !== 'FAILED' ? [i] : []))
  return (
    <div class={`bulkbar ${items.length ? '' : 'none'}`} role="group" aria-label="Selected entries">
      {items.length > 0 && <span>{items.length} selected</span>}
      <Bulk verb="Approve" act="approve" off={approvals.length === 0} reason="optional" jobs={(reason) => approvals.map((a) => named(decision(a, 'granted', reason)))} onDone={onDone} />
      <Bulk verb="Reject" off={approvals.length === 0} danger reason="required" jobs={(reason) => approvals.map((a) => named(decision(a, 'rejected', reason)))} onDone={onDone} />
      <Bulk verb="Redrive" act="redrive" off={failed.length === 0} jobs={() => failed.map((i) => named(steering(i, commands.redrive(i.id), () => post(`/tasks/${i.id}/redrive`))))} onDone={onDone} />
      <Bulk
        verb="Cancel" act="cancel" off={open.length === 0} danger reason="optional" onDone={onDone}
        jobs={(reason) => open.map((i) => named(steering(i, commands.cancel(i.id, reason), () => post(`/tasks/${i.id}/cancel`, { reason }))))}
      />
    </div>
  )
}

/** decide decides one approval of many. That the node has not answered is kept in mind, as for one that is decided alone. */
const decide = (a: ApprovalView, as: 'granted' | 'rejected', reason: string): Promise<unknown> =>
  post(`/approvals/${a.id}/decide`, { as, reason, seen_rev: a.task_rev }).catch((e: unknown) => {
    if (unanswered(e)) keepUnsure(a.id, as)
    throw e
  })

/** decision is what a decision does to one approval. Its row names the task. */
const decision = (a: ApprovalView, as: 'granted' | 'rejected', reason: string): Job => ({
  id: a.id, title: askedFor(a), detail: `task ${a.task_name || a.task} · step ${a.step ?? '–'} · ${a.task}`,
  skip: mayNot(a) || (as === 'granted' && a.form ? 'it has a form to fill in' : ''), open: href(`/inbox/${a.id}`), args: a.args,
  run: () => decide(a, as, reason), now: () => approvalNow(a.id),
  command: as === 'granted' ? commands.approve(a.id, reason, undefined, [], []) : commands.reject(a.id, reason),
})

/** steering is what an act does to one task. */
const steering = (i: Item & { summary: Summary }, command: string, run: () => Promise<unknown>): Job => ({
  id: i.id, title: i.taskName || i.id, detail: `${i.title} · ${i.id}`, before: words(i.summary.state), skip: '', run, now: () => taskNow(i.id), command,
})
