import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { ApprovalView, QuestionView } from '../api.ts'
import { aborted } from '../client.ts'
import { entries, plural } from '../format.ts'
import { findingOut, inboxRound, kindNames, nothingOf, readInbox, rule, wrongOf, type Inbox, type Item, type Kind } from '../inbox.ts'
import { apart, found } from '../inboxrows.ts'
import { useKeys } from '../keys.ts'
import { decides, epoch, narrow, now, status } from '../node.ts'
import { go, href, path, query, setQuery } from '../route.ts'
import { isTaskID } from '../tasks.ts'
import { ticked } from '../ticked.ts'
import { announce, hush } from '../ui/announce.tsx'
import { FilterText } from '../ui/filter.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Refused } from '../ui/refused.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago, Left } from '../ui/time.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Virtual } from '../ui/virtual.tsx'
import { ApprovalCard, FullApproval } from './approval.tsx'
import { InboxActs, selectable } from './inboxacts.tsx'
import { QuestionCard } from './question.tsx'
import { StuckCard } from './stuck.tsx'
import { UnsureOf } from './unsure.tsx'

/** InboxPage lists what waits for a person, and shows one entry of it. id is that entry, '' for the first. */
export function InboxPage({ id }: { id: string }) {
  useTitle('Inbox')
  const [inbox, setInbox] = useState<Inbox>()
  const [problem, setProblem] = useState<unknown>()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const last = useRef('')
  useEffect(() => {
    const abort = new AbortController()
    readInbox(abort.signal).then((i) => {
      setInbox(i)
      setProblem(undefined)
      setChosen((c) => new Set(i.items.filter((one) => c.has(one.id)).map((one) => one.id))) // what is selected is always in the list
    }, (e: unknown) => { if (!aborted(e)) setProblem(e) })
    return () => abort.abort()
  }, [inboxRound.value, epoch.value])

  const kind = query.value.get('kind') as Kind | null
  const find = query.value.get('find') ?? ''
  useEffect(() => setChosen(new Set()), [kind, find])
  const items = useMemo(() => found((inbox?.items ?? []).filter((i) => !kind || i.kind === kind), find), [inbox, kind, find])
  const differ = useMemo(() => apart(inbox?.items ?? []), [inbox])
  const at = items.findIndex((i) => i.id === id)
  const open = id ? inbox?.items.find((i) => i.id === id) : items[0]
  const shown = id || items[0]?.id || ''
  const before = useRef('')
  useEffect(() => { // a decision on a page that names no entry is about the one that it then names
    if (before.current && shown) hush(shown)
    before.current = shown
  }, [shown])
  const toggle = (item: Item, range = false) => {
    const from = range ? last.current : ''
    setChosen((c) => ticked(c, items.filter(selectable), item.id, from))
    last.current = item.id
  }
  const here = () => items.find((i) => path.value.endsWith(i.id)) ?? items[0] // also between a key and the next drawing
  const move = (by: number) => {
    const from = Math.max(0, items.findIndex((i) => path.value.endsWith(i.id)))
    show(items[Math.min(items.length - 1, Math.max(0, from + by))])
  }
  useKeys([
    { key: 'j', does: 'Next entry', run: () => move(1) },
    { key: 'k', does: 'Previous entry', run: () => move(-1) },
    ...(decides.value ? [{ key: 'x', does: 'Select the entry', run: () => { const i = here(); if (i && selectable(i)) toggle(i) } }] : []),
  ], [items, decides.value])
  // What is worked on and what was decided stays in view: were the next entry shown in its place, a second click would decide about that.
  const done = () => { inboxRound.value++; if (!id) show(open) }

  const wrong = wrongOf(query.value)
  if (wrong.length > 0) return <div class="scroll"><h1>Inbox</h1><Refused of={wrong} /></div>
  if (!inbox) return problem ? <Problem of={problem} /> : <Loading />
  return (
    <div class={`inbox ${id ? 'opened' : ''}`}>
      <h1>Inbox</h1>
      <section class="list" aria-label="What waits for you">
        <Kinds of={inbox.items} kind={kind} />
        {(find || inbox.items.length > 1) && <search><FilterText id="inbox-find" label="Find" value={find} hint="name, tool, person, value, id" onChange={(f) => setQuery({ find: f })} /></search>}
        <Problem of={problem} />
        {inbox.omitted + inbox.unread > 0 && <p class="note">{entries(inbox.omitted)} left out, {plural(inbox.unread, 'task')} unreadable.</p>}
        <InboxActs of={items.filter((i) => chosen.has(i.id))} differ={differ} onDone={() => { setChosen(new Set()); inboxRound.value++ }} />
        <FindingOut none={items.length === 0} kind={kind} find={find} all={inbox.items.length} />
        {items.length > 0 && (
          <>
            <p class="quiet small">{rule}</p>
            <div class="inboxheads" aria-hidden="true"><span>Waits</span><span>Ends</span></div>
            <Virtual
              items={items} height={narrow.value ? 88 : 68} label="Inbox entries" id={(i) => i.id} cursor={at} onCursor={(i) => show(items[i])}
              row={(i) => <Entry of={i} differs={differ.get(i.id) ?? ''} current={i === open} chosen={chosen.has(i.id)} onChoose={(range) => toggle(i, range)} />}
            />
          </>
        )}
      </section>
      <section class="detail" aria-label="Details" onFocusIn={() => { if (!id) show(open) }}>
        {id && <a class="back" href={href('/inbox', kept())}>← All entries</a>}
        {open ? <Card key={open.id} of={open} onDone={done} /> : id ? <Closed key={id} id={id} next={inbox.items.find((i) => i.task === id)} onDone={done} /> : null}
      </section>
    </div>
  )
}

/** FindingOut says that the list may still lack something, or that there is nothing (of a kind, or of a search; all is how many entries there are of all). */
function FindingOut({ none, kind, find, all }: { none: boolean; kind: Kind | null; find: string; all: number }) {
  const text = findingOut(status.value?.started_at, now.value)
  if (text) return <p class="note">{text}</p>
  if (!none) return null
  if (find && all > 0) return <Empty title="No entry matches."><a href={href('/inbox', { kind: kind ?? undefined })}>Clear the search</a>, or write another one: an entry is found by parts of its name, task, tool, step, people, arguments and id.</Empty>
  return <Empty title={nothingOf(kind)}>{kind && all > 0 && <><a href={href('/inbox')}>All that waits: {all}</a>. </>}Approvals, questions, calls in doubt, failed tasks and tasks that wait for a worker that nobody has started appear here by themselves.</Empty>
}

/** kept are the parameters of the list that a link to an entry keeps. */
const kept = () => ({ kind: query.value.get('kind') ?? undefined, find: query.value.get('find') ?? undefined })

const show = (item: Item | undefined): void => { if (item) go(href(`/inbox/${item.id}`, kept()), true) }

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
const single: Record<Kind, string> = { approval: 'Approval', question: 'Question', doubt: 'In doubt', dead: 'Dead letter', stuck: 'Stuck' }

/** Entry is a row. differs tells it from others with the same name. */
function Entry({ of: i, differs, current, chosen, onChoose }: { of: Item; differs: string; current: boolean; chosen: boolean; onChoose: (range: boolean) => void }) {
  const risk = i.kind === 'approval' ? i.approval.risk : ''
  return (
    <div class={`entry ${current ? 'current' : ''}`}>
      {decides.value && (selectable(i) ? <input type="checkbox" checked={chosen} onClick={(e) => onChoose(e.shiftKey)} aria-label={`Select ${i.title}${differs && `, ${differs}`}`} /> : <span class="space" />)}
      <a href={href(`/inbox/${i.id}`, kept())} aria-current={current ? 'true' : undefined}>
        <span class="titles"><span class="title"><Line>{i.title}</Line></span>{differs && <span class="differs cut"><Line>{differs}</Line></span>}</span>
        <span class="meta"><span class={`state ${marks[i.kind]}`}>{single[i.kind]}</span>{risk && <span class={`risk ${risk}`}>{risk} risk</span>}<span class="cut"><Line>{i.taskName}</Line></span><span class="waits"><span class="hidden">waits </span><Ago at={i.since} /></span><span class="ends">{i.until ? <Left at={i.until} /> : <span class="quiet">no end</span>}</span></span>
      </a>
    </div>
  )
}

function Card({ of: i, onDone }: { of: Item; onDone: () => void }) {
  switch (i.kind) {
    case 'approval': return <FullApproval of={i.approval} onDone={onDone} />
    case 'question': return <QuestionCard of={i.question} onDone={onDone} />
    default: return <StuckCard of={i.summary} asked={i.asked} waits={i.kind === 'stuck'} onDone={onDone} />
  }
}

/** Closed shows an entry that is not in the inbox: it was decided, or the address is wrong. next is what now waits of the same task. */
function Closed({ id, next, onDone }: { id: string; next: Item | undefined; onDone: () => void }) {
  const approval = useGet<ApprovalView>(id.startsWith('APR_') ? `/approvals/${id}` : '')
  const question = useGet<QuestionView>(id.startsWith('ASK_') ? `/questions/${id}` : '')
  if (approval.data) return <ApprovalCard of={approval.data} onDone={onDone} reload={approval.reload} />
  if (question.data) return <QuestionCard of={question.data} onDone={onDone} />
  if (isTaskID(id) && next) return <AsksAgain of={next} />
  if (isTaskID(id)) return <><UnsureOf task={id} onKnown={() => {}} /><Empty title="This task no longer waits for you."><a href={href(`/tasks/${id}`)}>Open the task</a> to see how it stands. If it asks again, this page goes there.</Empty></>
  return approval.problem || question.problem ? <Problem of={approval.problem ?? question.problem} /> : <Loading />
}

/** pause is how long it is said that a task asks again, before that is shown: so that a second click on the card before decides nothing. */
const pause = 1500

/** AsksAgain leads from a task to what waits of it now. */
function AsksAgain({ of: next }: { of: Item }) {
  const to = href(`/inbox/${next.id}`)
  useEffect(() => {
    const timer = setTimeout(() => { announce('It asks again.', next.id); go(to, true) }, pause)
    return () => clearTimeout(timer)
  }, [next.id])
  return <Empty title="The task goes on, and asks again."><a href={to}><Txt>{next.title}</Txt></a></Empty>
}
