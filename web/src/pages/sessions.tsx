import type { ListReply } from '../api.ts'
import { commands } from '../commands.ts'
import { decides } from '../node.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { Undo } from './undo.tsx'

const prefix = 'orch/session/'

/** SessionsPage lists the sessions of MCP clients, the newest first. */
export function SessionsPage() {
  useTitle('Sessions')
  const list = useGet<ListReply>('/tasks', { name: prefix + '*', limit: 200 }, live)
  if (!list.data) return list.problem ? <Problem of={list.problem} /> : <Loading />
  const sessions = list.data.tasks ?? []
  return (
    <div class="scroll">
      <h1>Sessions</h1>
      <p class="quiet">Each connection of an MCP client is a session. What it has changed in the project can be put back.</p>
      {sessions.length === 0 ? <Empty title="There was no session yet.">Connect a client: orch mcp --help</Empty> : (
        <div class="tablebox" tabIndex={0} role="region" aria-label="Sessions">
          <table>
            <thead><tr><th>State</th><th>Client</th><th>Works for</th><th>Last change</th><th>Tasks</th><th>Undo</th></tr></thead>
            <tbody>
              {sessions.map((s) => (
                <tr key={s.id}>
                  <td><span class={`state ${s.state === 'IN_PROGRESS' ? 'run' : 'off'}`}>{s.state === 'IN_PROGRESS' ? 'Open' : 'Ended'}</span></td>
                  <td><a href={href(`/tasks/${s.id}`)}><Txt>{s.name.slice(prefix.length) || s.id}</Txt></a></td>
                  <td><Txt>{s.requestor}</Txt></td><td><Ago at={s.updated_at} /></td>
                  <td><a href={href('/tasks', { session: s.id })}>Its tasks</a></td>
                  <td class="undo">{decides.value && <Undo session={s.id} title={s.name.slice(prefix.length) || s.id} />} <Command text={commands.undo(s.id, false)} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  )
}
