import type { AgentView, AgentsReply } from '../api.ts'
import { commands } from '../commands.ts'
import { count, nanoseconds, plural } from '../format.ts'
import { status } from '../node.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Workers } from './queue.tsx'

/** AgentsPage shows the registered agents, what they work on, and the workers and queues of the node. */
export function AgentsPage() {
  useTitle('Agents')
  const list = useGet<AgentsReply>('/agents')
  const agents = list.data?.agents ?? []
  const queued = Object.entries(status.value?.queued ?? {})
  return (
    <div class="scroll">
      <h1>Agents</h1>
      <p class="quiet">Agents register at the node and take calls of AGENT_TASK. Workers run all other calls. What agents with a language model spend: <a href={href('/costs', { by: 'agent' })}>Costs</a>.</p>
      <Problem of={list.problem} />
      {!list.data && !list.problem && <Loading />}
      {list.data && <h2>{plural(agents.length, 'registered agent')} <Command text={commands.agents()} /> <button type="button" class="link" onClick={list.reload}>Read again</button></h2>}
      {list.data && agents.length === 0 && <Empty title="No agent is registered."><>Register one, and run a command for its calls: <code>{commands.agentRun()}</code> <Command text={commands.agentRun()} /></></Empty>}
      {agents.length > 0 && <Agents of={agents} />}
      {list.data?.omitted ? <p class="quiet">and {plural(list.data.omitted, 'more')}: <code>{commands.agents()}</code></p> : null}
      <h2>Workers</h2>
      <Workers of={status.value?.workers ?? []} />
      <h2>Queues</h2>
      {queued.length === 0 ? <p class="quiet">No call waits for a worker.</p> : (
        <div class="tablebox" tabIndex={0} role="region" aria-label="Queues">
          <table>
            <thead><tr><th>Queue</th><th class="num">Waiting calls</th></tr></thead>
            <tbody>{queued.map(([name, n]) => <tr key={name}><td><a href={href('/queue')}><Line>{name || 'default'}</Line></a></td><td class="num">{count(n)}</td></tr>)}</tbody>
          </table>
        </div>
      )}
    </div>
  )
}

const looks: Record<string, [string, string]> = { idle: ['wait', 'Idle'], active: ['run', 'Active'], busy: ['block', 'Busy'], error: ['bad', 'Error'], offline: ['off', 'Offline'] }

function Agents({ of }: { of: AgentView[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Agents">
      <table class="roomy">
        <thead><tr><th>Agent</th><th>Status</th><th>Works on</th><th>Can do</th><th class="num">Inbox</th><th class="num">Done</th><th>Seen</th></tr></thead>
        <tbody>{of.map((a) => <Row key={a.id} of={a} />)}</tbody>
      </table>
    </div>
  )
}

function Row({ of: a }: { of: AgentView }) {
  const calls = a.calls ?? []
  const [look, word] = looks[a.status] ?? ['wait', a.status]
  return (
    <tr>
      <th scope="row" data-label="Agent">
        <a href={href('/tasks', { requestor: `agent:${a.name}` })}><Line>{a.name}</Line></a>
        <div class="quiet small"><Txt>{a.type}</Txt>{a.for && <>, works for <Txt>{a.for}</Txt></>}</div>
        {a.description && <div class="quiet small"><Txt>{a.description}</Txt></div>}
      </th>
      <td data-label="Status"><span class={`state ${look}`}>{word}</span>{a.problem && <div class="small"><Txt>{a.problem}</Txt></div>}</td>
      <td data-label="Works on">
        {calls.length === 0 ? <span class="quiet">nothing</span> : <ul class="plainlist">{calls.map((c) => <li key={c.task + c.step}><a href={href(`/tasks/${c.task}`, { step: c.step })}><Line>{c.step}</Line></a> <span class="quiet">{c.ending ? 'ending' : <Ago at={c.since} />}</span></li>)}</ul>}
        <div class="quiet small">{calls.length} of {a.max_tasks}</div>
      </td>
      <td data-label="Can do"><Txt>{(a.capabilities ?? []).join(', ')}</Txt></td>
      <td class="num" data-label="Inbox">{count(a.messages)}</td>
      <td class="num" data-label="Done">{count(a.completed)}{a.failed > 0 && <div class="small">{count(a.failed)} failed</div>}{a.busy ? <div class="quiet small">{nanoseconds(a.busy)}</div> : null}</td>
      <td data-label="Seen"><Ago at={a.last_seen} /></td>
    </tr>
  )
}
