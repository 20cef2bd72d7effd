import { useEffect, useState } from 'preact/hooks'
import type { BacktestReport, ChangedCall } from '../api.ts'
import { knowTime, post } from '../client.ts'
import { nodeTime } from '../clock.ts'
import { commands } from '../commands.ts'
import { count, plural } from '../format.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Problem } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useAction } from '../ui/use.ts'
import { Verdict } from '../ui/verdict.tsx'

const hours: [string, string][] = [['1h', 'hour'], ['24h', 'day'], ['168h', 'week'], ['720h', '30 days']]
const states = ['IN_PROGRESS', 'AWAITING_APPROVAL', 'BLOCKED', 'DONE', 'FAILED', 'CANCELLED']
const example = 'version: 1\nrules:\n  - name: no-push\n    action: deny\n    tools: [GIT_PUSH]\n'

/** Backtest judges past calls by another policy. */
export function Backtest({ text }: { text: string }) {
  const [policy, setPolicy] = useState(text || example)
  const [since, setSince] = useState('24h')
  const [tool, setTool] = useState('')
  const [state, setState] = useState('')
  const [label, setLabel] = useState('')
  const [report, setReport] = useState<BacktestReport>()
  const action = useAction()
  useEffect(() => setReport(undefined), [policy, since, tool, state, label])
  const [key, value] = split(label)
  const test = (e: Event) => {
    e.preventDefault()
    void action.run(async () => {
      await knowTime()
      const from = new Date(nodeTime() - parseInt(since, 10) * 3_600_000).toISOString()
      setReport(await post<BacktestReport>('/policy/backtest', {
        policy, since: from, ...(tool.trim() ? { tool: tool.trim() } : {}), ...(state ? { states: [state] } : {}), ...(key ? { labels: { [key]: value } } : {}),
      }))
    })
  }
  return (
    <section class="stack" aria-labelledby="backtest">
      <h2 id="backtest">Try another policy on past calls</h2>
      <p class="quiet">Which calls would it have treated in another way? The policy in effect stays as it is.</p>
      <form class="form" onSubmit={test}>
        <div class="field"><label for="test-policy">Policy file</label><textarea id="test-policy" class="code" rows={10} required maxLength={262_144} spellcheck={false} value={policy} onInput={(e) => setPolicy(e.currentTarget.value)} /></div>
        <div class="row even">
          <div class="field"><label for="test-since">Tasks that changed in the last</label><select id="test-since" value={since} onChange={(e) => setSince(e.currentTarget.value)}>{hours.map(([v, name]) => <option key={v} value={v}>{name}</option>)}</select></div>
          <div class="field"><label for="test-state">State</label><select id="test-state" value={state} onChange={(e) => setState(e.currentTarget.value)}><option value="">any</option>{states.map((s) => <option key={s}>{s}</option>)}</select></div>
          <div class="field"><label for="test-tool">Tool</label><input id="test-tool" class="code" maxLength={256} value={tool} placeholder="FILE_*" onInput={(e) => setTool(e.currentTarget.value)} /></div>
          <div class="field"><label for="test-label">Label</label><input id="test-label" class="code" pattern="[^=]+=.*" title="KEY=VALUE" value={label} placeholder="team=core" onInput={(e) => setLabel(e.currentTarget.value)} /></div>
        </div>
        <div class="actions"><span class="pair"><button class="primary" disabled={action.busy}>{action.busy ? 'Judging…' : 'Judge past calls'}</button><Command text={commands.policyTest(since, tool.trim(), state, label.trim())} /></span></div>
      </form>
      <Problem of={action.problem} />
      <div role="status" class="stack">{report && <Differences of={report} />}</div>
    </section>
  )
}

function split(label: string): [string, string] {
  const at = label.indexOf('=')
  return at > 0 ? [label.slice(0, at).trim(), label.slice(at + 1).trim()] : ['', '']
}

function Differences({ of: r }: { of: BacktestReport }) {
  const changes = r.changes ?? []
  const changed = r.changed ?? []
  const total = changes.reduce((sum, c) => sum + c.calls, 0)
  return (
    <>
      <p><b>{count(total)}</b> of {plural(r.calls, 'past call')} of {plural(r.tasks, 'task')} would be treated in another way.{r.unjudged > 0 && ` ${plural(r.unjudged, 'call')} cannot be judged: their arguments are large, or their tool is gone.`}</p>
      {r.truncated && <p class="note">The selection has more than a test reads. The tasks that changed last were judged; select fewer.</p>}
      {r.calls === 0 && <Empty title="There are no such calls.">Choose a longer time, or leave out a filter.</Empty>}
      {changes.length > 0 && <ul class="plainlist">{changes.map((c) => <li key={c.from + c.to}><b>{count(c.calls)}</b> from <Verdict of={c.from} /> to <Verdict of={c.to} /></li>)}</ul>}
      {changed.length > 0 && (
        <div class="tablebox stack" tabIndex={0} role="region" aria-label="Changed calls">
          <table class="roomy">
            <thead><tr><th>Call</th><th>Tool</th><th>By</th><th>Before</th><th>After</th><th>When</th></tr></thead>
            <tbody>{changed.map((c) => <Row key={`${c.task} ${c.step} ${c.at}`} of={c} />)}</tbody>
          </table>
        </div>
      )}
      {r.omitted ? <p class="quiet">and {plural(r.omitted, 'more call')}: the command lists all</p> : null}
    </>
  )
}

function Row({ of: c }: { of: ChangedCall }) {
  return (
    <tr>
      <td data-label="Call"><a href={href(`/tasks/${c.task}`, { step: c.step })}><Line>{c.step}</Line></a><div class="quiet small">{c.task.slice(0, 5)}…{c.task.slice(-6)}</div></td>
      <td data-label="Tool"><code><Txt>{c.tool}</Txt></code></td><td data-label="By"><Txt>{c.agent}</Txt></td>
      <td data-label="Before"><Verdict of={c.before.action} />{c.before.rule && <div><code>{c.before.rule}</code></div>}</td>
      <td data-label="After"><Verdict of={c.after.action} />{c.after.rule && <div><code>{c.after.rule}</code></div>}</td>
      <td data-label="When"><Ago at={c.at} /></td>
    </tr>
  )
}
