import { useEffect, useRef, useState } from 'preact/hooks'
import type { Json } from '../api.ts'
import { changedSet, doAll, look, newKey, otherSet, type Act, type Outcome } from '../bulk.ts'
import { Fault } from '../client.ts'
import { unanswered } from '../decisions.ts'
import { count, entries, plural } from '../format.ts'
import { away, decides } from '../node.ts'
import { beginAct, bulkReason, forgetAct, happened, learned, loseAct, openAct, told, type OpenAct } from '../openact.ts'
import { href } from '../route.ts'
import { Copy } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { Fields } from './json.tsx'
import { Problem } from './notice.tsx'
import { ReasonField, useReason } from './reason.tsx'
import { Txt } from './text.tsx'

/**
 * Job is what a bulk action does to one entry, which was in the state before. A job with a skip is shown and not run; open is where it can be
 * decided alone. differs tells it from others with the same title. now says what has become of the entry if it is none any more.
 */
export interface Job {
  id: string; title: string; differs?: string; detail: string; before?: string; skip: string; open?: string; args?: Json; command: string
  run: () => Promise<unknown>
  now: () => Promise<string>
}

interface BulkProps {
  verb: string
  off?: boolean
  /** waiting turns the button off: the node has not answered to such an act. */
  waiting?: boolean
  /** alone says that the page itself tells what became of an act without an answer, so that the dialog need not stay. */
  alone?: boolean
  danger?: boolean
  /** act is what the node does to all of them at once; without it they are acted on one by one. */
  act?: Act
  /** reason says whether the action takes a reason, and whether it needs one. */
  reason?: 'optional' | 'required'
  jobs: (reason: string) => Job[]
  onDone: () => void
}

/** Bulk is a button that first shows what it would do to each entry, and does it when that is confirmed. off hides the button, but not what it has opened. */
export function Bulk(p: BulkProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      {!p.off && <button type="button" class={p.danger ? 'danger' : ''} disabled={p.waiting ?? false} onClick={() => setOpen(true)}>{p.verb}…</button>}
      {open && <Preview {...p} onClose={() => setOpen(false)} />}
    </>
  )
}

const shown = 200
const atOnce = 4

/** Phase of a dialog: unsure, if the node has not answered to what was confirmed. */
type Phase = 'preview' | 'running' | 'done' | 'unsure'

/** Row is an entry of the dialog. changed says what became of it since the dialog was opened, by somebody else. */
interface Row extends Job { changed: string }

function Preview(p: BulkProps & { onClose: () => void }) {
  const reason = useReason('bulk-reason', p.reason ? bulkReason(p.verb) : '')
  const [phase, setPhase] = useState<Phase>(() => (openAct.value && !learned.value ? 'unsure' : 'preview'))
  const { rows, changed } = useRows(p.jobs(reason.text), phase === 'preview')
  const ready = rows.filter((r) => !r.skip && !r.changed)
  const at = useSet(decides.value ? p.act : undefined, ready, phase === 'preview', changed)
  const [results, setResults] = useState<ReadonlyMap<string, Outcome>>(new Map())
  const [tried, setTried] = useState(0)
  const work = async () => {
    if (at.act) {
      const digest = await at.digest()
      setResults(await sent(openActOf(p.verb, at.act, ready, digest, reason.text.trim(), at.key(digest, reason.text)), setTried))
      return reason.set('')
    }
    const open = await oneByOne(ready, (id, result) => { setResults((all) => new Map(all).set(id, result)); setTried((n) => n + 1) })
    if (open && p.alone) p.onClose()
    else if (!open) reason.set('')
  }
  const start = () => {
    if (phase !== 'preview') return
    if (p.reason === 'required' && !reason.ask()) return
    setPhase('running')
    setTried(0)
    at.begin()
    work().then(() => setPhase('done'), (e: unknown) => { at.failed(e); setPhase(openAct.value ? 'unsure' : 'preview') })
  }
  const known = phase === 'unsure' ? learned.value : undefined
  const close = () => {
    p.onClose()
    if (known) forgetAct()
    if (known || phase === 'done') p.onDone()
  }
  const none = ready.length === 0
  const verb = p.verb.toLowerCase()
  return (
    <Dialog title={none ? `Nothing to ${verb} here` : `${p.verb} ${entries(ready.length)}`} onClose={close} wide>
      <p class="quiet" role="status">{none ? 'None of the selected entries can be part of this. Each says why.' : known?.text ?? said(phase, results)}</p>
      {phase === 'running' && <p class="row"><progress max={ready.length} value={tried} aria-label="Progress" /> <span class="num">{count(tried)} of {count(ready.length)}</span></p>}
      {phase === 'unsure' && !known && <p class="problem" role="alert">It is not known what the node has done: it has not answered. This page asks again when it answers, and says then what became of it; do not do it again until then.</p>}
      {phase === 'preview' && at.problem !== undefined && <Trouble of={at.problem} />}
      <ul class="preview">{rows.slice(0, shown).map((r) => <Line key={r.id} of={r} phase={phase} verb={verb} result={(known?.results ?? results).get(r.id)} onClose={p.onClose} />)}</ul>
      {rows.length > shown && <p class="quiet">and {plural(rows.length - shown, 'more')}</p>}
      {p.reason && phase === 'preview' && !none && <ReasonField of={reason} rows={1} about={p.reason === 'required' ? `needed to ${verb}` : 'stays in the log'} wanted={`Write why: the node lets nobody ${verb} without a reason.`} />}
      <div class="actions">
        {phase === 'done' || phase === 'unsure' || none
          ? <button type="button" class="primary" onClick={close}>Close</button>
          : <button type="button" class={p.danger ? 'danger' : 'primary'} aria-disabled={phase === 'running'} onClick={start}>{p.verb} {ready.length}</button>}
        {!none && phase !== 'unsure' && <Copy text={ready.map((j) => j.command).join('\n')} label="Copy as commands">Copy as commands</Copy>}
      </div>
    </Dialog>
  )
}

/** said is the sentence above the entries. */
function said(phase: Phase, results: ReadonlyMap<string, Outcome>): string {
  if (phase === 'preview') return 'Nothing has happened yet. This is what would:'
  if (phase === 'running') return 'Working…'
  return phase === 'unsure' ? '' : happened(results)
}

const openActOf = (verb: string, act: Act, rows: Row[], digest: string, reason: string, key: string): OpenAct =>
  ({ verb, act, ids: rows.map((r) => r.id), titles: titlesOf(rows.slice(0, told)), digest, reason, key })

/** titlesOf are titles that differ. */
function titlesOf(rows: Row[]): string[] {
  const all = rows.map((r) => r.title.slice(0, 100) + (r.differs ? `, ${r.differs}` : ''))
  return all.map((t, at) => (all.indexOf(t) === all.lastIndexOf(t) ? t : `${t}, ${rows[at]?.detail ?? ''}`))
}

/** sent does an act, and keeps it in mind as long as the node has not answered. */
async function sent(a: OpenAct, progress: (tried: number) => void): Promise<Map<string, Outcome>> {
  beginAct(a)
  try {
    const results = await doAll(a.act, a.ids, a.digest, a.reason, a.key, progress)
    forgetAct()
    return results
  } catch (e) {
    if (unanswered(e)) loseAct(a)
    else forgetAct()
    throw e
  }
}

function Line({ of: r, phase, verb, result, onClose }: { of: Row; phase: Phase; verb: string; result: Outcome | undefined; onClose: () => void }) {
  const left = r.changed || r.skip
  return (
    <li class={r.changed ? 'changed' : ''}>
      <span class="title"><Txt>{r.title}</Txt></span>{r.differs && <> <span class="differs"><Txt>{r.differs}</Txt></span></>} <span class="quiet"><Txt>{[phase === 'preview' ? r.before : '', r.detail].filter(Boolean).join(' · ')}</Txt></span>
      <span class={`result ${result?.failed ? 'bad' : ''}`}>
        {result ? <Txt>{result.text}</Txt> : left ? <>left out: <Txt>{left}</Txt></> : phase === 'done' ? 'not tried' : phase === 'unsure' ? '' : verb}
        {result?.task && <> <a href={href(`/tasks/${result.task}`)} onClick={onClose}>another task</a></>}
        {left && r.open && !r.changed && <>. <a href={r.open} onClick={onClose}>Open it</a></>}
      </span>
      {r.args !== undefined && <details><summary>Arguments</summary><Fields value={r.args} label="arguments" /></details>}
    </li>
  )
}

/** Trouble says why nothing was done. */
function Trouble({ of: e }: { of: unknown }) {
  if (changedSet(e)) return <p class="problem" role="alert">The entries have changed since you looked, so nothing was done. What has changed says so below: look again, and confirm.</p>
  if (unanswered(e)) return <p class="problem" role="alert">The node does not answer, so nothing was done. This page asks again when it does.</p>
  return <Problem of={e} />
}

/** useRows are the entries for which a dialog was opened. One that is no entry any more stays, and says what became of it. */
function useRows(current: Job[], live: boolean): { rows: Row[]; changed: (ids: string[]) => void } {
  const [opened] = useState(current)
  const last = useRef(new Map(opened.map((j) => [j.id, j])))
  const [gone, setGone] = useState<ReadonlyMap<string, string>>(new Map())
  const now = new Set(current.map((j) => j.id))
  if (live) for (const j of current) if (last.current.has(j.id)) last.current.set(j.id, j)
  const changed = (ids: string[]) => {
    const say = (id: string, text: string) => setGone((all) => new Map(all).set(id, text))
    for (const id of ids) {
      say(id, 'it has changed meanwhile')
      last.current.get(id)?.now().then((text) => say(id, text), () => {})
    }
  }
  const missing = live ? opened.filter((j) => !now.has(j.id) && !gone.has(j.id)).map((j) => j.id) : []
  useEffect(() => changed(missing), [missing.join()])
  return { rows: opened.map((j) => ({ ...(last.current.get(j.id) ?? j), changed: gone.get(j.id) ?? '' })), changed }
}

/** Prepared is what the node would act on. */
interface Prepared {
  act: Act | undefined
  problem: unknown
  /** digest is that of the set that is shown, once the node has answered. */
  digest: () => Promise<string>
  /** key names the act: the same one as long as nothing about it changes, so that it is done once. */
  key: (digest: string, reason: string) => string
  begin: () => void
  failed: (e: unknown) => void
}

/** useSet asks the node which entries it would act on, again when they change or after a failure. Those that it leaves out have changed. */
function useSet(act: Act | undefined, rows: Row[], live: boolean, changed: (ids: string[]) => void): Prepared {
  const [problem, setProblem] = useState<unknown>()
  const [round, setRound] = useState(0)
  const digest = useRef(Promise.resolve(''))
  const key = useRef({ of: '', key: '' })
  const ids = rows.map((r) => r.id)
  useEffect(() => {
    if (!act || !live || ids.length === 0 || away.value) return
    let wanted = true
    const asked = look(act, ids).then((set) => {
      const out = ids.filter((id) => !set.ids.has(id))
      if (out.length === 0) return set.digest
      if (wanted) changed(out)
      throw otherSet()
    })
    asked.catch((e: unknown) => { if (wanted && !changedSet(e)) setProblem((before: unknown) => before ?? e) })
    digest.current = asked
    return () => { wanted = false }
  }, [act, ids.join(), live, round, away.value])
  return {
    act, problem, digest: () => digest.current,
    key: (set, reason) => {
      const of = set + reason
      if (key.current.of !== of) key.current = { of, key: newKey() }
      return key.current.key
    },
    begin: () => setProblem(undefined),
    failed: (e) => { setProblem(e); setRound((r) => r + 1) },
  }
}

/** oneByOne runs jobs, a few at once, and reports the result of each. It returns whether the node has not answered to one of them. */
async function oneByOne(jobs: Job[], report: (id: string, result: Outcome) => void): Promise<boolean> {
  let open = false
  const rest = [...jobs]
  const worker = async () => {
    for (let j = rest.shift(); j; j = rest.shift()) {
      const id = j.id
      await j.run().then(() => report(id, { text: 'done', failed: false }), (e: unknown) => {
        open ||= unanswered(e)
        report(id, failure(e))
      })
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return open
}

/** failure is the outcome of an error. */
function failure(e: unknown): Outcome {
  if (unanswered(e)) return { text: 'it is not known whether this was done: the node has not answered', failed: true, unknown: true }
  return { text: e instanceof Fault ? `${e.code}: ${e.message}` : String(e), failed: true }
}
