import { useState } from 'preact/hooks'
import type { Act, AuditReply, HistoryReply, ListReply, Summary } from '../api.ts'
import { commands } from '../commands.ts'
import { plural, words } from '../format.ts'
import { decides, limited } from '../node.ts'
import { href } from '../route.ts'
import { callsOf, changedFiles, toolsOf, undoOf, type Undoing } from '../sessions.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago, Past } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { Undo } from './undo.tsx'

const prefix = 'orch/session/'

/** atOnce is for how many sessions the page reads what they did without being asked; perSession is how many of their calls. */
const [atOnce, perSession] = [20, 200]

/** SessionsPage lists the sessions of MCP clients, the newest first. */
export function SessionsPage() {
  useTitle('Sessions')
  const list = useGet<ListReply>('/tasks', { name: prefix + '*', limit: 200 }, live)
  const undone = useGet<AuditReply>(limited.value ? '' : '/audit', { act: 'task.undo', outcome: 'done', limit: 1000 }, live)
  const [shown, setShown] = useState(atOnce)
  if (!list.data) return list.problem ? <Problem of={list.problem} /> : <Loading />
  const sessions = list.data.tasks ?? []
  return (
    <div class="scroll">
      <h1>Sessions</h1>
      <p class="quiet">Each connection of an MCP client is a session. What it has changed in the project can be put back.</p>
      {sessions.length === 0 ? <Empty title="There was no session yet.">Connect a client: orch mcp --help</Empty> : (
        <div class="tablebox stack" tabIndex={0} role="region" aria-label="Sessions">
          <table class="roomy sessions">
            <thead><tr><th>Client</th><th>State</th><th>What it did</th><th>Last call</th><th>Undo</th></tr></thead>
            <tbody>{sessions.slice(0, shown).map((s) => <Session key={s.id} of={s} undone={undone.data?.acts ?? []} />)}</tbody>
          </table>
        </div>
      )}
      {sessions.length > shown && <button type="button" onClick={() => setShown(shown + atOnce)}>Show {plural(Math.min(atOnce, sessions.length - shown), 'older session')}</button>}
    </div>
  )
}

function Session({ of: s, undone }: { of: Summary; undone: Act[] }) {
  const open = s.state === 'IN_PROGRESS'
  const read = useGet<ListReply>('/tasks', { session: s.id, limit: perSession }, open ? live : 0)
  const calls = callsOf(s.id, read.data?.tasks ?? [])
  const last = calls[0]
  const title = s.name.slice(prefix.length) || s.id
  const undo = undoOf(s.id, calls, undone)
  return (
    <tr>
      <th scope="row" data-label="Client"><a href={href(`/tasks/${s.id}`)}><Txt>{title}</Txt></a><div class="quiet small">for <Txt>{s.requestor}</Txt>, began <Past at={s.created_at} /></div></th>
      <td data-label="State"><span class={`state ${open ? 'run' : 'off'}`}>{open ? 'Open' : 'Ended'}</span>{undo && <Undone of={undo} />}</td>
      <td data-label="What it did">{read.data ? <Did session={s.id} calls={calls} more={read.data.next !== undefined && read.data.next !== ''} /> : <span class="quiet">…</span>}</td>
      <td data-label="Last call">{last ? <><a href={href(`/tasks/${last.id}`)}><Line>{last.name}</Line></a><div class="quiet small">{words(last.state)}, <Past at={last.updated_at} /></div></> : <span class="quiet">none, <Ago at={s.updated_at} /></span>}</td>
      <td data-label="Undo" class="undo">{decides.value && <Undo session={s.id} title={title} />} <Command text={commands.undoDry(s.id)} /></td>
    </tr>
  )
}

/** Undone marks a session that was undone as a whole, or in part. */
const Undone = ({ of: u }: { of: Undoing }) => (
  <div class="small"><span class="state wait">{u.calls ? `${plural(u.calls, 'call')} undone` : 'Undone'}</span> <span class="quiet"><Past at={u.at} /> by <Txt>{u.actor}</Txt>{u.task && <>, <a href={href(`/tasks/${u.task}`)}>its task</a></>}</span></div>
)

/** Did says how many calls of which tools a session has made, and which files they have changed when that is asked for. */
function Did({ session, calls, more }: { session: string; calls: Summary[]; more: boolean }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <a href={href('/tasks', { session })}>{plural(calls.length, more ? 'or more calls' : 'call')}</a>
      {calls.length > 0 && <span class="quiet small"> {toolsOf(calls)}</span>}
      {calls.length > 0 && <details onToggle={(e) => setOpen(e.currentTarget.open)}><summary>Changed files</summary>{open && <ul class="plainlist small">{calls.slice(0, atOnce).map((c) => <Files key={c.id} of={c} />)}{calls.length > atOnce && <li class="quiet">and those of {plural(calls.length - atOnce, 'earlier call')}</li>}</ul>}</details>}
    </>
  )
}

/** Files lists the files that a call has changed. */
function Files({ of: c }: { of: Summary }) {
  const history = useGet<HistoryReply>(`/tasks/${c.id}/history`, { limit: 1000 })
  const files = changedFiles(history.data)
  if (!history.data) return null
  return <li><a href={href(`/tasks/${c.id}`)}><Line>{c.name}</Line></a> {files.length === 0 ? <span class="quiet">none</span> : files.map((f) => <div key={f.path}>{f.how} <code><Txt>{f.path}</Txt></code></div>)}</li>
}
