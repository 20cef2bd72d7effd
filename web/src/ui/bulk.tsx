import { useState } from 'preact/hooks'
import type { Json } from '../api.ts'
import { Fault } from '../client.ts'
import { count, plural } from '../format.ts'
import { Copy } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { Fields } from './json.tsx'
import { ReasonField, useReason } from './reason.tsx'
import { Txt } from './text.tsx'

/** Job is what a bulk action does to one entry, which was in the state before. A job with a skip is shown and not run; open is where it can be decided alone. */
export interface Job { id: string; title: string; detail: string; before?: string; skip: string; open?: string; args?: Json; command: string; run: () => Promise<unknown> }

interface BulkProps {
  verb: string
  off?: boolean
  danger?: boolean
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
      {!p.off && <button type="button" class={p.danger ? 'danger' : ''} onClick={() => setOpen(true)}>{p.verb}…</button>}
      {open && <Preview {...p} onClose={() => setOpen(false)} />}
    </>
  )
}

const shown = 200
const atOnce = 4

const said = { preview: 'Nothing has happened yet. This is what would:', running: 'Working…', done: 'This has happened:' }

const entries = (n: number): string => `${count(n)} ${n === 1 ? 'entry' : 'entries'}`

function Preview(p: BulkProps & { onClose: () => void }) {
  const reason = useReason('bulk-reason')
  const [results, setResults] = useState<Record<string, string>>({})
  const [phase, setPhase] = useState<keyof typeof said>('preview')
  const [begun, setBegun] = useState<Job[]>()
  const jobs = begun ?? p.jobs(reason.text) // what was done stays in view: the entries change meanwhile
  const ready = jobs.filter((j) => !j.skip)
  const start = async () => {
    if (p.reason === 'required' && !reason.ask()) return
    setBegun(jobs)
    setPhase('running')
    await all(ready, (id, result) => setResults((r) => ({ ...r, [id]: result })))
    setPhase('done')
  }
  const close = () => { p.onClose(); if (phase === 'done') p.onDone() }
  const none = ready.length === 0
  const verb = p.verb.toLowerCase()
  return (
    <Dialog title={none ? `Nothing to ${verb} here` : `${p.verb} ${entries(ready.length)}`} onClose={close} wide>
      <p class="quiet" role="status">{none ? `None of the selected entries can be part of this. Each says why.` : said[phase]}</p>
      <ul class="preview">
        {jobs.slice(0, shown).map((j) => (
          <li key={j.id}>
            <span class="title"><Txt>{j.title}</Txt></span> <span class="quiet"><Txt>{[phase === 'preview' ? j.before : '', j.detail].filter(Boolean).join(' · ')}</Txt></span>
            <span class="result">{results[j.id] ?? (j.skip ? `left out: ${j.skip}` : verb)}{j.skip && j.open && <>. <a href={j.open} onClick={p.onClose}>Open it</a></>}</span>
            {j.args !== undefined && <details><summary>Arguments</summary><Fields value={j.args} label="arguments" /></details>}
          </li>
        ))}
      </ul>
      {jobs.length > shown && <p class="quiet">and {plural(jobs.length - shown, 'more')}</p>}
      {p.reason && phase === 'preview' && !none && <ReasonField of={reason} rows={1} about={p.reason === 'required' ? `needed to ${verb}` : 'stays in the log'} wanted={`Write why: the node lets nobody ${verb} without a reason.`} />}
      <div class="actions">
        {phase === 'done' || none
          ? <button type="button" class="primary" onClick={close}>Close</button>
          : <button type="button" class={p.danger ? 'danger' : 'primary'} disabled={phase === 'running'} onClick={() => void start()}>{p.verb} {ready.length}</button>}
        {!none && <Copy text={ready.map((j) => j.command).join('\n')} label="Copy as commands">Copy as commands</Copy>}
      </div>
    </Dialog>
  )
}

/** all runs jobs, a few at once, and reports the result of each. */
async function all(jobs: Job[], report: (id: string, result: string) => void): Promise<void> {
  const rest = [...jobs]
  const worker = async () => {
    for (let j = rest.shift(); j; j = rest.shift()) {
      const id = j.id
      await j.run().then(() => report(id, 'done'), (e: unknown) => report(id, e instanceof Fault ? `${e.code}: ${e.message}` : String(e)))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}
