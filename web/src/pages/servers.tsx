import type { ServerView, ServersReply } from '../api.ts'
import { commands } from '../commands.ts'
import { count, nanoseconds, plural } from '../format.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { ServerTools } from './servertools.tsx'

/** ServersPage shows the external MCP servers of the node, and the tools of one of them. */
export function ServersPage({ name }: { name: string }) {
  useTitle('MCP servers')
  const list = useGet<ServersReply>('/mcp/servers')
  const servers = list.data?.servers ?? []
  const chosen = servers.find((s) => s.name === name)
  return (
    <div class="scroll">
      <h1>MCP servers</h1>
      <p class="quiet">Servers whose tools plans and clients of this node can call. Their definitions are pinned: a tool whose definition changes is refused until somebody accepts it.</p>
      <Problem of={list.problem} />
      {!list.data && !list.problem && <Loading />}
      {list.data?.disabled && <Empty title="This node uses no MCP servers.">Start it with the setting <code>mcp_enabled</code>.</Empty>}
      {list.data && !list.data.disabled && servers.length === 0 && <Empty title="No MCP server is defined."><>Take over those of your MCP client, then look here again: <code>{commands.mcpImport()}</code> <Command text={commands.mcpImport()} /></></Empty>}
      {servers.length > 0 && <Servers of={servers} at={name} />}
      {list.data && name && !chosen && <Empty title="There is no such server."><a href={href('/mcp')}>All servers</a></Empty>}
      {chosen && <ServerTools key={name} of={chosen} onChange={list.reload} />}
    </div>
  )
}

const looks: Record<string, string> = { ready: 'good', degraded: 'block', offline: 'bad' }
const breakers: Record<string, string> = { open: 'no attempts for now: it failed too often', 'half-open': 'being tried again' }

function Servers({ of, at }: { of: ServerView[]; at: string }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="MCP servers">
      <table class="roomy">
        <thead><tr><th>Server</th><th>State</th><th class="num">Tools</th><th class="num">Calls</th><th>Checked</th><th>Try</th></tr></thead>
        <tbody>
          {of.map((s) => (
            <tr key={s.name}>
              <th scope="row" data-label="Server"><a href={href(`/mcp/${s.name}`)} aria-current={s.name === at ? 'true' : undefined}>{s.name}</a><div class="quiet small">{s.transport}</div>{s.description && <div class="quiet small"><Txt>{s.description}</Txt></div>}</th>
              <td data-label="State"><State of={s} /></td>
              <td class="num" data-label="Tools">{count(s.tools)}{s.blocked > 0 && <div class="small">{count(s.blocked)} blocked</div>}</td>
              <td class="num" data-label="Calls">{count(s.calls)}{s.errors > 0 && <div class="small">{plural(s.errors, 'error')}</div>}{s.latency ? <div class="quiet small">{nanoseconds(s.latency)}</div> : null}</td>
              <td data-label="Checked"><Ago at={s.checked_at} /></td><td data-label="Try"><Command text={commands.mcpTest(s.name)} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function State({ of: s }: { of: ServerView }) {
  const breaker = breakers[s.breaker]
  return (
    <>
      {s.enabled ? <span class={`state ${looks[s.status] ?? 'wait'}`}>{s.status === 'ready' ? 'Ready' : s.status === 'degraded' ? 'Degraded' : 'Offline'}</span> : <span class="state off">Disabled</span>}
      {s.enabled && breaker && <div class="small">{breaker}{s.failures ? `, ${plural(s.failures, 'failure')}` : ''}</div>}
      {s.last_error && <div class="small"><Line>{s.last_error}</Line></div>}
    </>
  )
}
