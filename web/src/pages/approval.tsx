import { signal } from '@preact/signals'
import { useState } from 'preact/hooks'
import type { ApprovalView } from '../api.ts'
import { Fault, post } from '../client.ts'
import { commands } from '../commands.ts'
import { draft, keepDraft } from '../drafts.ts'
import { moment, words } from '../format.ts'
import { useKeys } from '../keys.ts'
import { record } from '../json.ts'
import { decides, role, status } from '../node.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command, Copy } from '../ui/copy.tsx'
import { SchemaForm, initial, type Values } from '../ui/form.tsx'
import { Fields } from '../ui/json.tsx'
import { Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago, Past } from '../ui/time.tsx'
import { useAction, useGet } from '../ui/use.ts'
import { Covered } from './covered.tsx'
import { Continue } from './stuck.tsx'

type As = 'granted' | 'rejected' | 'revise'

/** FullApproval reads one approval again, because a list may leave out large arguments. */
export function FullApproval({ of, onDone }: { of: ApprovalView; onDone: () => void }) {
  const full = useGet<ApprovalView>(`/approvals/${of.id}`)
  const stale = () => { full.reload(); onDone() }
  return <><Problem of={full.problem} /><ApprovalCard of={full.data ?? of} onDone={onDone} onStale={stale} /></>
}

/** ApprovalCard shows all that a decision needs, and decides. */
export function ApprovalCard({ of: a, onDone, onStale }: { of: ApprovalView; onDone: () => void; onStale?: () => void }) {
  return (
    <article class="card split" aria-labelledby={a.id}>
      {a.status === 'pending' && !mayNot(a) ? <Decide of={a} onDone={onDone} onStale={onStale} /> : <div class="cardbody"><Facts of={a} /><Settled of={a} /><WayOut of={a} onDone={onDone} onStale={onStale ?? onDone} /></div>}
    </article>
  )
}

/** Facts is what there is to know before a decision. */
function Facts({ of: a }: { of: ApprovalView }) {
  return (
    <>
      <p class="kicker">{a.type === 'checkpoint' ? 'Checkpoint' : 'Approval'}{a.risk && <> · <span class={`risk ${a.risk}`}>{a.risk} risk</span></>} · {a.priority} priority</p>
      <h2 id={a.id}><Txt>{a.description}</Txt></h2>
      <About of={a} />
      <Content of={a} />
    </>
  )
}

function About({ of: a }: { of: ApprovalView }) {
  return (
    <dl class="facts">
      <div><dt>Task</dt><dd><a href={href(`/tasks/${a.task}`)}><Txt>{a.task_name || a.task}</Txt></a>{a.step && <> · step <code><Txt>{a.step}</Txt></code></>}</dd></div>
      <div><dt>Requested by</dt><dd><Txt>{a.caller || a.requester}</Txt>, for <Txt>{a.submitter}</Txt></dd></div>
      {a.status === 'pending'
        ? <div><dt>Waiting</dt><dd>for <Ago at={a.requested_at} />, expires <Ago at={a.expires_at} /> (then: {words(a.on_expiry).toLowerCase()})</dd></div>
        : <div><dt>Asked</dt><dd><Past at={a.requested_at} />{a.status === 'expired' && <>, expired <Past at={a.expires_at} /></>}</dd></div>}
      {a.quorum ? <div><dt>Quorum</dt><dd>{a.votes?.length ?? 0} of {a.quorum} agree {a.votes?.length ? <>(<Txt>{a.votes.join(', ')}</Txt>)</> : null}</dd></div> : null}
      {a.from?.length ? <div><dt>May decide</dt><dd><Txt>{a.from.join(', ')}</Txt></dd></div> : null}
    </dl>
  )
}

function Content({ of: a }: { of: ApprovalView }) {
  return (
    <>
      {a.rationale && <section><h3>Rationale</h3><p class="quote"><Txt>{a.rationale}</Txt></p></section>}
      {a.tool && (
        <section>
          <h3>Exactly this call runs, once: <code><Txt>{a.tool}</Txt></code></h3>
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
  if (a.from?.length && me && !a.from.includes(me)) return `Only ${a.from.join(', ')} may decide.`
  return ''
}

function Decide({ of: a, onDone, onStale }: { of: ApprovalView; onDone: () => void; onStale: (() => void) | undefined }) {
  const id = `decide-${a.id}`
  const reason = useReason(id + '-reason', a.id)
  const [form, setForm] = useState<Values>(() => initial(a.form))
  const [opens, setOpens] = useState<string[]>([])
  const [always, setAlways] = useState<string[]>([])
  const action = useAction(onStale)
  const hasForm = record(a.form) !== undefined
  const decide = async (as: As) => {
    if (as !== 'granted' && !reason.ask()) return
    const body = { as, reason: reason.text, seen_rev: a.task_rev, ...(hasForm && as === 'granted' ? { form } : {}), ...(opens.length ? { opens } : {}), ...(always.length ? { always } : {}) }
    if (!(await action.run(() => post(`/approvals/${a.id}/decide`, body).catch((e: unknown) => { noteLost(a, as, e); throw e })))) return
    keepDraft(a.id, '')
    forgetLost(a.id)
    announce(done[as])
    onDone()
  }
  const submit = (e: Event) => { e.preventDefault(); void decide('granted') }
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
        <Problem of={action.problem} />
      </div>
      <div class="actions">
        <span class="pair"><button class="primary" disabled={action.busy}>Approve</button><Command text={commands.approve(a.id, reason.text, form, opens, always)} /></span>
        <span class="pair"><button type="button" disabled={action.busy} onClick={() => void decide('revise')}>Ask for another version</button><Command text={commands.revise(a.id, reason.text)} /></span>
        <span class="pair"><button type="button" class="danger" disabled={action.busy} onClick={() => void decide('rejected')}>Reject</button><Command text={commands.reject(a.id, reason.text)} /></span>
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

/** lost are the decisions of this page that came too late, by approval: what it had chosen, and what the node said. */
const lost = signal<Record<string, { as: As; why: string; task: string }>>({})

function noteLost({ id, task }: ApprovalView, as: As, e: unknown): void {
  if (!(e instanceof Fault) || e.status !== 409) return
  lost.value = { ...lost.value, [id]: { as, why: e.message, task } }
  announce(`Not taken: ${e.message}`)
}

function forgetLost(id: string): void {
  const { [id]: _, ...others } = lost.value
  lost.value = others
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

/** Settled says who decided, or why the reader may not. */
function Settled({ of: a }: { of: ApprovalView }) {
  if (a.status === 'pending') return <p class="note">{mayNot(a)}</p>
  return (
    <>
      <p class="note">
        {words(a.status)}{a.approver && <> by <Txt>{a.approver}</Txt></>}{a.decided_at && <>, {moment(a.decided_at)}</>}{a.reason && <>: <Txt>{a.reason}</Txt></>}
      </p>
      <TooLate of={a.id} />
    </>
  )
}

/** goesOn are the rules for an approval without a decision that do not block its task. */
const goesOn = ['reject', 'default', 'continue']

/** WayOut lets a task go on that an approval without a decision has blocked or ended, as the command does that orch explain names. */
function WayOut({ of: a, onDone, onStale }: { of: ApprovalView; onDone: () => void; onStale: () => void }) {
  if (a.status !== 'expired') return null
  const [blocked, failed] = [a.task_state === 'BLOCKED' && !goesOn.includes(a.on_expiry), a.task_state === 'FAILED']
  if (!blocked && !failed) return <p class="quiet">Nobody decided in time. <a href={href(`/tasks/${a.task}`)}>The task</a> has gone on since: {words(a.task_state).toLowerCase()}.</p>
  const after = () => { onStale(); onDone() }
  return (
    <section>
      <h3>What to do</h3>
      <p>{blocked ? 'Nobody decided in time, and the task waits. Resume it, and the call asks again.' : 'Nobody decided in time, and the task has failed. A redrive begins it anew with the results that it has, and the call asks again.'}</p>
      <Continue of={{ id: a.task, name: a.task_name, state: a.task_state }} rev={a.task_rev} onDone={after} onStale={onStale} />
    </section>
  )
}

/** LostOf says the same on the page of a task, which shows only the approvals that wait. */
export function LostOf({ task, waiting }: { task: string; waiting: ApprovalView[] }) {
  const ids = Object.keys(lost.value).filter((id) => lost.value[id]?.task === task && !waiting.some((a) => a.id === id))
  return <>{ids.map((id) => <TooLate key={id} of={id} />)}</>
}

const chosen: Record<As, string> = { granted: 'approve', rejected: 'reject', revise: 'ask for another version' }

/** TooLate says that a decision of this page was not taken, and keeps the reason that was typed for it. */
function TooLate({ of: id }: { of: string }) {
  const [reason, setReason] = useState(draft(id))
  const mine = lost.value[id]
  if (!mine && !reason) return null
  const forget = () => {
    keepDraft(id, '')
    setReason('')
    forgetLost(id)
  }
  return (
    <section class="problem" role="alert">
      <p>{mine ? <>Your decision to {chosen[mine.as]} was not taken: <Txt>{mine.why}</Txt>.</> : 'It is decided. What you had written here was not sent.'}</p>
      {reason && <p>You had written: <q><Txt>{reason}</Txt></q> <Copy text={reason} label="Copy your reason">Copy</Copy></p>}
      <button type="button" class="link" onClick={forget}>Forget it</button>
    </section>
  )
}
