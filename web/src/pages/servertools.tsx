import { useEffect, useState } from 'preact/hooks'
import type { ServerTool, ServerToolsReply, ServerView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { plural } from '../format.ts'
import { status } from '../node.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Diff } from '../ui/diff.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useAction, useGet } from '../ui/use.ts'

/** ServerTools shows the tools of a server: first those whose definitions wait to be accepted. */
export function ServerTools({ of: server, onChange }: { of: ServerView; onChange: () => void }) {
  const read = useGet<ServerToolsReply>(`/mcp/servers/${encodeURIComponent(server.name)}/tools`)
  const tools = read.data?.tools ?? []
  const waiting = tools.filter((t) => t.status !== 'accepted')
  const [round, setRound] = useState(0)
  useEffect(() => { if (round > 0) document.getElementById('server')?.focus() }, [round])
  const accepted = (reply: ServerToolsReply) => { read.set(reply); onChange(); setRound(round + 1) }
  return (
    <section class="stack" aria-labelledby="server">
      <h2 id="server" tabIndex={-1}>{server.name}</h2>
      <p class="quiet">Defined in <code><Txt>{server.source}</Txt></code></p>
      <Problem of={read.problem} />
      {!read.data && !read.problem && <Loading />}
      {read.data && tools.length === 0 && <Empty title="No tool of this server was ever seen."><>Connect to it and see what it says: <code>{commands.mcpTest(server.name)}</code></></Empty>}
      {waiting.length > 0 && <h3>{plural(waiting.length, 'tool')} {waiting.length === 1 ? 'waits' : 'wait'} to be accepted. Calls are refused until then.</h3>}
      {waiting.map((t) => <Drift key={t.tool} of={t} server={server.name} onAccept={accepted} onStale={read.reload} />)}
      {tools.length > waiting.length && <Tools of={tools.filter((t) => t.status === 'accepted')} />}
    </section>
  )
}

interface DriftProps { of: ServerTool; server: string; onAccept: (reply: ServerToolsReply) => void; onStale: () => void }

/** Drift shows how the definition of a tool has changed. Operators can accept it. */
function Drift({ of: t, server, onAccept, onStale }: DriftProps) {
  const [asking, setAsking] = useState(false)
  const command = commands.mcpAccept(server, t.tool)
  return (
    <article class="card" aria-label={`Definition of ${t.tool}`}>
      <p><span class="state block">{t.status === 'changed' ? 'Changed' : 'New'}</span> <b><Txt>{t.tool}</Txt></b> <span class="quiet"><Txt>{t.why}</Txt></span></p>
      <Diff of={t.diff ?? ''} label={`How ${t.tool} has changed`} />
      <div class="actions">
        {status.value?.role === 'operator' && <span class="pair"><button type="button" onClick={() => setAsking(true)}>Accept…</button><Command text={command} /></span>}
        {status.value?.role !== 'operator' && <span class="quiet">An operator accepts it: <code><Txt>{command}</Txt></code></span>}
      </div>
      {asking && <Confirm of={t} server={server} onClose={() => setAsking(false)} onAccept={onAccept} onStale={onStale} />}
    </article>
  )
}

function Confirm({ of: t, server, onAccept, onStale, onClose }: DriftProps & { onClose: () => void }) {
  const action = useAction()
  const accept = async () => {
    const done = await action.run(async () => onAccept(await post<ServerToolsReply>(`/mcp/servers/${encodeURIComponent(server)}/accept`, { tools: { [t.tool]: t.sha256 } })))
    if (done) announce('Accepted.')
    else onStale()
  }
  return (
    <Dialog title="Accept this definition?" onClose={onClose} wide>
      <p>Models read these texts and do what they say. Calls of <b><Txt>{t.tool}</Txt></b> will run again.</p>
      <Diff of={t.diff ?? ''} label="What you accept" />
      <Problem of={action.problem} />
      <div class="actions"><button type="button" class="primary" disabled={action.busy} onClick={() => void accept()}>Accept</button><button type="button" onClick={onClose}>Cancel</button></div>
    </Dialog>
  )
}

function Tools({ of }: { of: ServerTool[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Accepted tools">
      <table class="roomy">
        <thead><tr><th>Tool</th><th>Effect</th><th>What it says</th><th>Accepted</th></tr></thead>
        <tbody>
          {of.map((t) => (
            <tr key={t.tool}>
              <th scope="row" data-label="Tool"><code><Txt>{t.name || t.tool}</Txt></code>{!t.name && <div class="quiet small">not offered</div>}</th>
              <td data-label="Effect">{t.effect}</td><td data-label="What it says"><Txt>{t.description}</Txt></td><td data-label="Accepted">{t.accepted_at && <Ago at={t.accepted_at} />} <span class="quiet"><Txt>{t.accepted_by}</Txt></span></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
