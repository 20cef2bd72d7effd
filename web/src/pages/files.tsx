import { useEffect, useState } from 'preact/hooks'
import type { FileReply, FilesReply, FileView } from '../api.ts'
import { Fault, get } from '../client.ts'
import { commands } from '../commands.ts'
import { absenceOf, bytes, fileAddress, nameOf, opensFor, pagePart, textOf, whyShut } from '../files.ts'
import { moment, plural } from '../format.ts'
import { href, query, setQuery } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { useGet } from '../ui/use.ts'
import { mayHide, pieces } from '../unseen.ts'

const pageSize = 200

/** Files shows the workspace of a task as a tree, and the file that the address names. */
export function Files({ id, past }: { id: string; past: boolean }) {
  const [round, setRound] = useState(0)
  const selected = query.value.get('file') ?? ''
  return (
    <div class="files">
      <div class="row">
        <span class="pair"><button type="button" onClick={() => setRound(round + 1)}>Read again</button><Command text={commands.files(id)} /></span>
        {past && <p class="quiet small">These are the files as they are now: revisions do not keep them.</p>}
      </div>
      <div class={`filesbody ${selected ? 'opened' : ''}`}>
        <section class="tree" aria-label="Files of the task"><Folder id={id} path="" selected={selected} round={round} /></section>
        {selected && <Content key={`${selected} ${round}`} id={id} path={selected} />}
      </div>
    </div>
  )
}

/** round grows when everything is to be read again. */
interface FolderProps { id: string; path: string; selected: string; round: number }

/** Folder lists a folder, page by page. */
function Folder({ id, path, selected, round }: FolderProps) {
  const first = useGet<FilesReply>(`/tasks/${id}/files`, { path, limit: pageSize })
  const [opened] = useState(round)
  const [more, setMore] = useState<FilesReply[]>([])
  const [problem, setProblem] = useState<unknown>()
  useEffect(() => setMore([]), [first.data])
  useEffect(() => { if (round > opened) first.reload() }, [round])
  if (first.problem) return <NoFiles of={first.problem} />
  if (!first.data) return <Loading />
  const next = more.length > 0 ? more.at(-1)?.next : first.data.next
  const all = [first.data, ...more].flatMap((r) => r.files ?? [])
  const read = () => {
    get<FilesReply>(`/tasks/${id}/files`, { path, limit: pageSize, cursor: next }).then((r) => { setMore([...more, r]); setProblem(undefined) }, setProblem)
  }
  return (
    <>
      {path === '' && first.data.task !== id && <p class="note">The calls of this task work in the workspace of <a href={href(`/tasks/${first.data.task}`, { tab: 'files' })}>another task</a>, which they share.</p>}
      {all.length === 0 ? <p class="quiet small">empty</p> : <ul>{all.map((f) => <Entry key={f.path} id={id} of={f} selected={selected} round={round} />)}</ul>}
      {next && <button type="button" onClick={read}>Show more of <Line>{path ? nameOf(path) : 'the workspace'}</Line></button>}
      <Problem of={problem} />
    </>
  )
}

/** NoFiles says why there is nothing to list. */
function NoFiles({ of }: { of: unknown }) {
  const absence = of instanceof Fault ? absenceOf(of.reason, of.message) : undefined
  return absence ? <Empty title={absence.title}><Txt>{absence.text}</Txt></Empty> : <Problem of={of} />
}

function Entry({ id, of: f, selected, round }: Omit<FolderProps, 'path'> & { of: FileView }) {
  const [open, setOpen] = useState(opensFor(f.path, selected))
  const shut = whyShut(f)
  const name = nameOf(f.path)
  if (f.kind === 'folder' && !shut) {
    return (
      <li>
        <button type="button" class="plain fold" aria-expanded={open} onClick={() => setOpen(!open)}><Line>{name}</Line>/</button>
        {open && <div class="below"><Folder id={id} path={f.path} selected={selected} round={round} /></div>}
      </li>
    )
  }
  if (f.kind === 'file' && !shut) {
    return (
      <li class="leaf">
        <button type="button" class="plain" aria-pressed={f.path === selected} onClick={() => setQuery({ file: f.path })}><Line>{name}</Line></button>
        <span class="size" title={`changed ${moment(f.modified)}`}>{bytes(f.size ?? 0)}</span>
      </li>
    )
  }
  return (
    <li class="leaf">
      <span class="shut"><Txt>{name}</Txt>{f.kind === 'link' && <> → <Txt>{f.target}</Txt></>} <span class="quiet small">({f.kind === 'link' ? 'a link, which is not followed' : shut})</span></span>
      <span class="size">{f.kind === 'file' && bytes(f.size ?? 0)}</span>
    </li>
  )
}

/** Content shows a file, part by part. */
function Content({ id, path }: { id: string; path: string }) {
  const [parts, setParts] = useState<FileReply[]>([])
  const [problem, setProblem] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const last = parts.at(-1)
  const read = (offset: number) => {
    setBusy(true)
    get<FileReply>(fileAddress(id, path), { offset, limit: pagePart })
      .then((part) => { setParts((all) => [...all, part]); setProblem(undefined); if (offset) announce('The next part is shown.') }, setProblem)
      .finally(() => setBusy(false))
  }
  useEffect(() => read(0), [id, path])
  const redacted = parts.reduce((n, p) => n + (p.redacted ?? 0), 0)
  return (
    <section class="content" aria-label="The selected file">
      <div class="row">
        <h2><Txt>{path}</Txt></h2>
        <span class="pair end"><button type="button" onClick={() => setQuery({ file: undefined })}>Close</button><Command text={commands.file(id, path)} /></span>
      </div>
      {last && <p class="quiet small" role="status">{bytes(last.size)}, changed {moment(last.modified)}{redacted > 0 && `, ${plural(redacted, 'secret')} replaced`}</p>}
      {!last && !problem && <Loading />}
      <Problem of={problem} />
      {last && (last.binary ? <Empty title={`This file is no text: ${bytes(last.size)}.`}>The command beside its name, with <code>{'> FILE'}</code> behind it, writes it to a file.</Empty> : <Text parts={parts} path={path} />)}
      {last?.next && !last.binary ? <button type="button" disabled={busy} onClick={() => read(last.next ?? 0)}>Next part, from {bytes(last.next)} of {bytes(last.size)}</button> : null}
    </section>
  )
}

const mostPieces = 500

/** Text shows the text of a file. If it has many invisible characters, they are named in the text instead of beside it. */
function Text({ parts, path }: { parts: FileReply[]; path: string }) {
  const whole = parts.map(textOf).join('')
  if (whole === '') return <p class="quiet">The file is empty.</p>
  const many = mayHide(whole) && pieces(whole).length > mostPieces
  return <pre class="text" tabIndex={0} role="region" aria-label={`content of ${nameOf(path)}`}>{many ? <Line>{whole}</Line> : <Txt>{whole}</Txt>}</pre>
}
