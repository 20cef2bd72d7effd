import { useEffect, useMemo, useState } from 'preact/hooks'
import type { ApprovalView, QuestionView } from '../api.ts'
import { aborted, post } from '../client.ts'
import { commands } from '../commands.ts'
import { plural } from '../format.ts'
import { inboxRound, kindNames, readInbox, type Inbox, type Item, type Kind } from '../inbox.ts'
import { useKeys } from '../keys.ts'
import { epoch, decides } from '../node.ts'
import { go, href, path, query, setQuery } from '../route.ts'
import { isTaskID } from '../tasks.ts'
import { Bulk, type Job } from '../ui/bulk.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Line } from '../ui/text.tsx'
import { Ago, Left } from '../ui/time.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Virtual } from '../ui/virtual.tsx'
import { ApprovalCard, FullApproval, mayNot } from './approval.tsx'
import { QuestionCard } from './question.tsx'
import { StuckCard } from './stuck.tsx'

/** InboxPage lists what waits for a person, and shows one entry of it. id is that entry, '' for the first. */
export function InboxPage({ id }: { id: string }) {
  useTitle('Inbox')
  const [inbox, setInbox] = useState<Inbox>()
  const [problem, setProblem] = useState<unknown>()
  const [chosen, setChosen] = useState<string[]>([])
  useEffect(() => {
    const abort = new AbortController()
    readInbox(abort.signal).then((i) => { setInbox(i); setProblem(undefined) }, (e: unknown) => { if (!aborted(e)) setProblem(e) })
    return () => abort.abort()
  }, [inboxRound.value, epoch.value])

  const kind = query.value.get('kind') as Kind | null
  const items = useMemo(() => (inbox?.items ?? []).filter((i) => !kind || i.kind === kind), [inbox, kind])
  const at = items.findIndex((i) => i.id === id)
  const open = at >= 0 ? items[at] : id ? undefined : items[0]
  const move = (by: number) => {
    const from = Math.max(0, items.findIndex((i) => path.value.endsWith(i.id)))
    show(items[Math.min(items.length - 1, Math.max(0, from + by))])
  }
  useKeys([
    { key: 'j', does: 'Next entry', run: () => move(1) },
    { key: 'k', does: 'Previous entry', run: () => move(-1) },
  ], [items])
  // What is worked on and what was decided stays in view: were the next entry shown in its place, a second click would decide about that.
  const done = () => { inboxRound.value++; if (!id) show(open) }

  if (!inbox) return problem ? <Problem of={problem} /> : <Loading />
  return (
    <div class={`inbox ${id ? 'opened' : ''}`}>
      <h1>Inbox</h1>
      <section class="list" aria-label="What waits for you">
        <Kinds of={inbox.items} kind={kind} />
        <Problem of={problem} />
        {inbox.omitted + inbox.unread > 0 && <p class="note">{plural(inbox.omitted, 'entry')} left out, {plural(inbox.unread, 'task')} unreadable.</p>}
        {chosen.length > 0 && <BulkBar of={items} chosen={chosen} onDone={() => { setChosen([]); inboxRound.value++ }} />}
        {items.length === 0
          ? <Empty title="Nothing waits for you.">Approvals, questions, calls in doubt, failed tasks and tasks that wait for a worker that nobody has started appear here by themselves.</Empty>
          : <Virtual
              items={items} height={68} label="Inbox entries" id={(i) => i.id} cursor={at} onCursor={(i) => show(items[i])}
              row={(i) => <Entry of={i} current={i === open} chosen={chosen.includes(i.id)} onChoose={() => setChosen(toggle(chosen, i.id))} />}
            />}
      </section>
      <section class="detail" aria-label="Details" onFocusIn={() => { if (!id) show(open) }}>
        {id && <a class="back" href={href('/inbox', { kind: kind ?? undefined })}>← All entries</a>}
        {open ? <Card key={open.id} of={open} onDone={done} /> : id ? <Closed id={id} onDone={done} /> : null}
      </section>
    </div>
  )
}

const show = (item: Item | undefined): void => { if (item) go(href(`/inbox/${item.id}`, { kind: query.value.get('kind') ?? undefined }), true) }
const toggle = (list: string[], id: string): string[] => (list.includes(id) ? list.filter((l) => l !== id) : [...list, id])

function Kinds({ of, kind }: { of: Item[]; kind: Kind | null }) {
  return (
    <div class="chips" role="group" aria-label="Kinds">
      {(Object.keys(kindNames) as Kind[]).map((k) => (
        <button key={k} type="button" aria-pressed={k === kind} onClick={() => setQuery({ kind: k === kind ? undefined : k })}>
          {kindNames[k]} <span class="n">{of.filter((i) => i.kind === k).length}</span>
        </button>
      ))}
    </div>
  )
}

const marks: Record<Kind, string> = { approval: 'person', question: 'person', doubt: 'block', dead: 'bad', stuck: 'block' }
const single: Record<Kind, string> = { approval: 'Approval', question: 'Question', doubt: 'In doubt', dead: 'Failed or blocked', stuck: 'Needs action' }

function Entry({ of: i, current, chosen, onChoose }: { of: Item; current: boolean; chosen: boolean; onChoose: () => void }) {
  const risk = i.kind === 'approval' ? i.approval.risk : ''
  return (
    <div class={`entry ${current ? 'current' : ''}`}>
      {decides.value && (i.kind === 'approval' || i.kind === 'dead' ? <input type="checkbox" checked={chosen} onChange={onChoose} aria-label={`Select ${i.title}`} /> : <span class="space" />)}
      <a href={href(`/inbox/${i.id}`, { kind: query.value.get('kind') ?? undefined })} aria-current={current ? 'true' : undefined}>
        <span class="title"><Line>{i.title}</Line></span>
        <span class="meta"><span class={`state ${marks[i.kind]}`}>{single[i.kind]}</span>{risk && <span class={`risk ${risk}`}>{risk} risk</span>}<span class="cut"><Line>{i.taskName}</Line></span>{i.until ? <Left at={i.until} /> : <Ago at={i.since} />}</span>
      </a>
    </div>
  )
}

function Card({ of: i, onDone }: { of: Item; onDone: () => void }) {
  switch (i.kind) {
    case 'approval': return <FullApproval of={i.approval} onDone={onDone} />
    case 'question': return <QuestionCard of={i.question} onDone={onDone} />
    default: return <StuckCard of={i.summary} waits={i.kind === 'stuck'} onDone={onDone} />
  }
}

/** Closed shows an entry that is not in the inbox: it was decided, or the address is wrong. */
function Closed({ id, onDone }: { id: string; onDone: () => void }) {
  const approval = useGet<ApprovalView>(id.startsWith('APR_') ? `/approvals/${id}` : '')
  const question = useGet<QuestionView>(id.startsWith('ASK_') ? `/questions/${id}` : '')
  if (approval.data) return <ApprovalCard of={approval.data} onDone={onDone} onStale={approval.reload} />
  if (question.data) return <QuestionCard of={question.data} onDone={onDone} />
  if (isTaskID(id)) return <Empty title="This task no longer waits for you."><a href={href(`/tasks/${id}`)}>Open the task</a> to see how it stands.</Empty>
  return <Empty title="This entry no longer waits.">It was decided meanwhile, has expired, or its address is wrong.</Empty>
}

function BulkBar({ of, chosen, onDone }: { of: Item[]; chosen: string[]; onDone: () => void }) {
  const items = of.filter((i) => chosen.includes(i.id))
  const approvals = items.flatMap((i) => (i.kind === 'approval' ? [i.approval] : []))
  const dead = items.flatMap((i) => (i.kind === 'dead' && i.summary.state === 'FAILED' ? [i.summary] : []))
  const decide = (as: string) => (a: ApprovalView, reason: string): Job => ({
    id: a.id, title: a.description, detail: a.tool ?? a.type, skip: mayNot(a) || (as === 'granted' && a.form ? 'it has a form to fill in' : ''),
    open: href(`/inbox/${a.id}`),
    args: a.args, run: () => post(`/approvals/${a.id}/decide`, { as, reason, seen_rev: a.task_rev }),
    command: as === 'granted' ? commands.approve(a.id, reason, undefined, [], []) : commands.reject(a.id, reason),
  })
  return (
    <div class="bulkbar" role="group" aria-label="Selected entries">
      <span>{chosen.length} selected</span>
      {approvals.length > 0 && <Bulk verb="Approve" reason="optional" jobs={(reason) => approvals.map((a) => decide('granted')(a, reason))} onDone={onDone} />}
      {approvals.length > 0 && <Bulk verb="Reject" danger reason="required" jobs={(reason) => approvals.map((a) => decide('rejected')(a, reason))} onDone={onDone} />}
      {dead.length > 0 && <Bulk verb="Redrive" jobs={() => dead.map((t) => ({ id: t.id, title: t.name, detail: t.reason ?? '', skip: '', run: () => post(`/tasks/${t.id}/redrive`), command: commands.redrive(t.id) }))} onDone={onDone} />}
    </div>
  )
}
