import { useState } from 'preact/hooks'
import type { ApprovalView } from '../api.ts'
import { Fault, post } from '../client.ts'
import { commands } from '../commands.ts'
import { draftOf, forgetDrafts, forgetLost, formOf, keepUnsure, noteLost, unanswered, unsure, type As } from '../decisions.ts'
import { words } from '../format.ts'
import { useKeys } from '../keys.ts'
import { record } from '../json.ts'
import { decides, role, status } from '../node.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command, Copy } from '../ui/copy.tsx'
import { SchemaForm, useValues } from '../ui/form.tsx'
import { Fields } from '../ui/json.tsx'
import { Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { Txt } from '../ui/text.tsx'
import { Expires, Past, Waiting } from '../ui/time.tsx'
import { useAction, useGet } from '../ui/use.ts'
import { Covered } from './covered.tsx'
import { Settled, WayOut } from './settled.tsx'
import { Asking, Truth } from './unsure.tsx'

/** FullApproval reads one approval again, because a list may leave out large arguments. */
export function FullApproval({ of, onDone }: { of: ApprovalView; onDone: () => void }) {
  const full = useGet<ApprovalView>(`/approvals/${of.id}`)
  return <><Problem of={full.problem} /><ApprovalCard of={full.data ?? of} onDone={onDone} reload={full.reload} /></>
}

/** ApprovalCard shows all that a decision needs, and decides. reload reads the approval again. */
export function ApprovalCard({ of, onDone, reload }: { of: ApprovalView; onDone: () => void; reload: () => void }) {
  const [answer, setAnswer] = useState<ApprovalView>() // what the node has answered to this card
  const a = answer && of.status === 'pending' && (answer.task_rev ?? 0) >= (of.task_rev ?? 0) ? answer : of
  return (
    <article class="card split" aria-labelledby={a.id}>
      {a.status === 'pending' && !mayNot(a) ? <Decide of={a} onAnswer={setAnswer} onDone={onDone} onStale={() => { reload(); onDone() }} /> : <div class="cardbody"><Facts of={a} /><Settled of={a} /><WayOut of={a} onDone={onDone} reload={reload} /></div>}
    </article>
  )
}

/** Facts is what there is to know before a decision. */
export function Facts({ of: a }: { of: ApprovalView }) {
  return (
    <>
      <p class="kicker">{a.type === 'checkpoint' ? 'Checkpoint' : 'Approval'}{a.risk && <> · <span class={`risk ${a.risk}`}>{a.risk} risk</span></>} · {a.priority} priority</p>
      <h2 id={a.id}><Txt>{a.description}</Txt></h2>
      <About of={a} />
      <Content of={a} />
    </>
  )
}

/** Asked is what an approval has asked that nobody decided in time. It reads the approval again, because a list may leave out large arguments. */
export function Asked({ of }: { of: ApprovalView }) {
  const a = useGet<ApprovalView>(`/approvals/${of.id}`).data ?? of
  return (
    <section>
      <h3>What was asked</h3>
      <p><a href={href(`/inbox/${a.id}`)}><Txt>{a.description}</Txt></a> <span class="quiet">asked <Past at={a.requested_at} />, expired <Past at={a.expires_at} /></span></p>
      <Content of={a} past />
    </section>
  )
}

function About({ of: a }: { of: ApprovalView }) {
  return (
    <dl class="facts">
      <div><dt>Task</dt><dd><a href={href(`/tasks/${a.task}`)}><Txt>{a.task_name || a.task}</Txt></a>{a.step && <> · step <code><Txt>{a.step}</Txt></code></>}</dd></div>
      <div><dt>Requested by</dt><dd><Txt>{a.caller || a.requester}</Txt>, for <Txt>{a.submitter}</Txt></dd></div>
      {a.status === 'pending'
        ? <div><dt>Waiting</dt><dd><Waiting at={a.requested_at} />, <Expires at={a.expires_at} /> (then: {words(a.on_expiry).toLowerCase()})</dd></div>
        : <div><dt>Asked</dt><dd><Past at={a.requested_at} />{a.status === 'expired' && <>, expired <Past at={a.expires_at} /></>}</dd></div>}
      {a.quorum ? <div><dt>Quorum</dt><dd>{a.votes?.length ?? 0} of {a.quorum} agree {a.votes?.length ? <>(<Txt>{a.votes.join(', ')}</Txt>)</> : null}</dd></div> : null}
      {a.from?.length ? <div><dt>May decide</dt><dd><Txt>{a.from.join(', ')}</Txt></dd></div> : null}
    </dl>
  )
}

/** Content is what a grant allows; past, what it would have allowed. */
function Content({ of: a, past = a.status !== 'pending' }: { of: ApprovalView; past?: boolean }) {
  return (
    <>
      {a.rationale && <section><h3>Rationale</h3><p class="quote"><Txt>{a.rationale}</Txt></p></section>}
      {a.tool && (
        <section>
          <h3>{past ? 'The call' : 'Exactly this call runs, once:'} <code><Txt>{a.tool}</Txt></code></h3>
          <Fields value={a.args} label="arguments" />
          {a.args_sha256 && <p class="quiet small">Bound to digest <code title={a.args_sha256}>{a.args_sha256.slice(0, 16)}…</code> <Copy text={a.args_sha256} label="Copy digest">Copy</Copy></p>}
        </section>
      )}
      {a.scopes?.length ? <section><h3>Opens for the whole task</h3><Scopes of={a.scopes} /></section> : null}
      <Covered calls={a.calls} />
      {a.details !== undefined && a.details !== null && <section><h3>Details</h3><Fields value={a.details} label="details" /></section>}
    </>
  )
}

const Scopes = ({ of: list }: { of: string[] }) => <ul class="plainlist">{list.map((s) => <li key={s}><code><Txt>{s}</Txt></code></li>)}</ul>

/** mayNot returns why the identity of the page may not decide, or ''. */
export function mayNot(a: ApprovalView): string {
  const me = status.value?.identity ?? ''
  if (!decides.value) return `Your role is ${role.value}: you can read, not decide.`
  if (a.not_by?.includes(me)) return 'A second person has to decide: you asked for this call.'
  if (a.votes?.includes(me)) return `You have agreed. ${a.votes.length} of ${a.quorum ?? 1} have.`
  if (a.from?.length && me && !a.from.includes(me)) return `Only ${a.from.join(', ')} may decide.`
  return ''
}

interface DecideProps { of: ApprovalView; onAnswer: (a: ApprovalView) => void; onDone: () => void; onStale: () => void }

function Decide({ of: a, onAnswer, onDone, onStale }: DecideProps) {
  const id = `decide-${a.id}`
  const reason = useReason(id + '-reason', draftOf(a))
  const [open, setOpen] = useState(() => unsure(a.id)) // a decision without an answer
  const [form, setForm] = useValues(a.form, formOf(draftOf(a)))
  const [opens, setOpens] = useState<string[]>([])
  const [always, setAlways] = useState<string[]>([])
  const action = useAction(onStale)
  const off = action.busy || open !== ''
  const hasForm = record(a.form) !== undefined
  const decide = async (as: As) => {
    if (as !== 'granted' && !reason.ask()) return
    const body = { as, reason: reason.text, seen_rev: a.task_rev, ...(hasForm && as === 'granted' ? { form } : {}), ...(opens.length ? { opens } : {}), ...(always.length ? { always } : {}) }
    const taken = (now: ApprovalView) => {
      forgetDrafts(draftOf(a))
      forgetLost(a.id)
      onAnswer(now)
    }
    const send = () => post<ApprovalView>(`/approvals/${a.id}/decide`, body).then(taken, (e: unknown) => { refused(a, as, e); throw e })
    if (!(await action.run(send))) return setOpen(unsure(a.id))
    announce(done[as])
    onDone()
  }
  const submit = (e: Event) => { e.preventDefault(); if (!off) void decide('granted') }
  useKeys([
    { key: 'a', does: 'Approve what is shown; unless its risk is low, Enter confirms it', run: () => approveByKey(a, id) },
    { key: 'r', does: 'Write a reason to reject', run: () => document.getElementById(reason.id)?.focus() },
  ], [a.id])
  return (
    <form id={id} class="cardform" onSubmit={submit}>
      <div class="cardbody">
        <Facts of={a} />
        <hr />
        {hasForm && <SchemaForm schema={a.form} values={form} onChange={setForm} wrong={action.problem instanceof Fault ? action.problem.field : ''} />}
        <Offers title="Also open for this session" of={a.offers} chosen={opens} onChange={setOpens} />
        <Offers title="Always open, for every session of the submitter" of={a.lasting} chosen={always} onChange={setAlways} />
        <ReasonField of={reason} about="stays in the log; needed to reject, and to ask for another version" wanted="Write why, for whoever asked." />
        {open ? <Asking of={a} as={open} onAnswer={(now) => { setOpen(''); onAnswer(now); onDone() }} /> : unanswered(action.problem) ? null : <Problem of={action.problem} />}
        <Truth of={a} />
      </div>
      <div class="actions">
        <span class="pair"><button class="primary" disabled={off}>Approve</button><Command text={commands.approve(a.id, reason.text, form, opens, always)} /></span>
        <span class="pair"><button type="button" disabled={off} onClick={() => void decide('revise')}>Ask for another version</button><Command text={commands.revise(a.id, reason.text)} /></span>
        <span class="pair"><button type="button" class="danger" disabled={off} onClick={() => void decide('rejected')}>Reject</button><Command text={commands.reject(a.id, reason.text)} /></span>
      </div>
    </form>
  )
}

/** approveByKey approves a call of low risk. For every other one it moves the focus to the button, so that a stray letter decides nothing. */
function approveByKey(a: ApprovalView, form: string): void {
  const it = document.getElementById(form) as HTMLFormElement | null
  if (a.risk === 'low') return it?.requestSubmit()
  it?.querySelector<HTMLElement>('button.primary')?.focus()
  announce(`${a.risk ? words(a.risk) : 'Unknown'} risk: Enter approves.`)
}

/** refused keeps in mind why the node did not take a decision, or that it has not answered. */
function refused(a: ApprovalView, as: As, e: unknown): void {
  if (unanswered(e)) keepUnsure(a.id, as)
  if (!(e instanceof Fault) || e.status !== 409) return
  noteLost(a, as, e.message)
  announce(`Not taken: ${e.message}`)
}

const done: Record<As, string> = { granted: 'Approved.', rejected: 'Rejected.', revise: 'Asked for another version.' }

function Offers(p: { title: string; of: string[] | undefined; chosen: string[]; onChange: (chosen: string[]) => void }) {
  if (!p.of?.length) return null
  const toggle = (o: string) => p.onChange(p.chosen.includes(o) ? p.chosen.filter((c) => c !== o) : [...p.chosen, o])
  return (
    <fieldset>
      <legend>{p.title}</legend>
      {p.of.map((o) => <label key={o} class="check"><input type="checkbox" checked={p.chosen.includes(o)} onChange={() => toggle(o)} /> <code><Txt>{o}</Txt></code></label>)}
    </fieldset>
  )
}
