import { useEffect, useState } from 'preact/hooks'
import type { ChangedLater, Undone } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { moment, plural } from '../format.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Diff } from '../ui/diff.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'

interface UndoProps { session: string; title: string; what?: 'session' | 'call' }

/** Undo is a button that first shows what an undo of a session, or of a call of one, would put back, and puts it back when that is confirmed. */
export function Undo({ session, title, what = 'session' }: UndoProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button type="button" aria-label={`Undo the changes of ${title}`} onClick={() => setOpen(true)}>Undo…</button>
      {open && <UndoDialog session={session} title={title} what={what} onClose={() => setOpen(false)} />}
    </>
  )
}

function UndoDialog({ session, title, what, onClose }: Required<UndoProps> & { onClose: () => void }) {
  const [force, setForce] = useState(false)
  const [preview, setPreview] = useState<Undone>()
  const [result, setResult] = useState<Undone>()
  const action = useAction()
  useEffect(() => {
    let left = false
    setPreview(undefined)
    void action.run(async () => {
      const found = await post<Undone>(`/tasks/${session}/undo`, { force, dry_run: true })
      if (!left) setPreview(found)
    })
    return () => { left = true }
  }, [session, force])
  const start = () => void action.run(async () => {
    setResult(await post<Undone>(`/tasks/${session}/undo`, { force }))
    announce('The undo has ended.')
  })
  const shown = result ?? preview
  const ready = !result && preview?.done === true && count(preview) > 0
  return (
    <Dialog title={`Undo the changes of a ${what}`} onClose={onClose} wide>
      <p class="quiet"><Txt>{title}</Txt>. Git is left alone: what was staged or committed still is. What programs have done elsewhere stays too: in databases, on other machines, in <code>node_modules</code> and other folders that can be built again.</p>
      <Problem of={action.problem} />
      {!shown && action.busy && <Loading />}
      {shown && <Changes of={shown} past={result !== undefined} />}
      {!result && (
        <label class="check"><input type="checkbox" checked={force} disabled={action.busy} onChange={(e) => setForce(e.currentTarget.checked)} /> Also put back what was changed since</label>
      )}
      <div class="actions">
        {result
          ? <button type="button" class="primary" onClick={onClose}>Close</button>
          : <button type="button" class="danger" disabled={!ready || action.busy} onClick={start}>{preview ? `Undo ${plural(count(preview), 'file')}` : 'Undo'}</button>}
        <Command text={commands.undo(session, force)} />
      </div>
    </Dialog>
  )
}

const count = (u: Undone): number => u.restored.length + u.removed.length

/** Changes lists the files of an undo by what happens to them. */
function Changes({ of, past }: { of: Undone; past: boolean }) {
  if (!of.done) return <p class="note">The undo has not ended yet. <a href={href(`/tasks/${of.task}`)}>Its task</a> goes on.</p>
  const lists: [string, string[]][] = [
    [past ? 'restored' : 'would be restored', of.restored], [past ? 'removed' : 'would be removed', of.removed], ['changed since, left as it is', of.conflicts],
  ]
  if (lists.every(([, files]) => files.length === 0)) return <p class="note" role="status">Nothing has changed.</p>
  const lost = (of.later ?? []).filter((l) => l.lost).length
  return (
    <>
      <p class="quiet" role="status">{past ? 'This has happened:' : 'Nothing has happened yet. This is what would:'}</p>
      {lost > 0 && <p class="note">{plural(lost, 'file')} {lost === 1 ? 'was' : 'were'} changed since. {past ? 'These changes are lost.' : 'These changes would be lost.'}</p>}
      <ul class="preview" tabIndex={0} aria-label="Files">
        {lists.flatMap(([what, files]) => files.map((file) => <Changed key={file} file={file} what={what} later={of.later?.find((l) => l.path === file)} past={past} />))}
      </ul>
    </>
  )
}

/** Changed is a file of an undo: what happens to it, and what was changed since. */
function Changed({ file, what, later, past }: { file: string; what: string; later: ChangedLater | undefined; past: boolean }) {
  return (
    <li>
      <span class="result">{what}</span><span class="title"><Txt>{file}</Txt></span>
      {later?.by.map((by, i) => (
        <div key={i} class="small">
          changed since by {by.task ? <a href={href(`/tasks/${by.task}`, { step: by.step })}>task …{by.task.slice(-6)}</a> : by.who}
          {(by.step || by.at) && <> ({by.step && <>step <Txt>{by.step}</Txt></>}{by.step && by.at && ', '}{by.at && moment(Date.parse(by.at))})</>}
          {later.lost && <b>: that change {past ? 'is' : 'would be'} lost</b>}
        </div>
      ))}
      {later && (later.diff
        ? <details><summary>{later.lost ? 'What is lost' : 'What was changed'}</summary><Diff of={later.diff} label={`What was changed in ${file}`} /></details>
        : <div class="small quiet">What was changed is no text, or too much to show.</div>)}
    </li>
  )
}
