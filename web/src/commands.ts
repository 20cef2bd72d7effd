// The commands of the command line that do the same as the buttons of the page.
import type { Json } from './api.ts'
import { command } from './format.ts'
import { record } from './json.ts'

const why = (reason: string): string[] => (reason ? ['--reason', reason] : [])

/** plain returns the fields of a form as name=value, or undefined if one of them is not plain. */
function plain(form: Json): string[] | undefined {
  const entries = Object.entries(record(form) ?? {})
  const all = entries.every(([, v]) => typeof v === 'string' || typeof v === 'number' || typeof v === 'boolean')
  return all ? entries.map(([k, v]) => `${k}=${String(v)}`) : undefined
}

/** pairs returns arguments as name=value, and as name:=value where the value is JSON. */
const pairs = (args: Record<string, Json>): string[] => Object.entries(args).map(([k, v]) => (typeof v === 'string' ? `${k}=${v}` : `${k}:=${JSON.stringify(v)}`))

function accept(id: string, content: Json): string {
  const fields = plain(content)
  const how = fields ? ['--accept', ...fields] : ['--json', JSON.stringify({ action: 'accept', content })]
  return command('orch', 'answer', id, ...how)
}

export const commands = {
  approve: (id: string, reason: string, form: Json, opens: string[], always: string[]) =>
    command('orch', 'approve', id, ...(plain(form) ?? ['--form', JSON.stringify(form)]), ...why(reason), ...opens.flatMap((o) => ['--for-session', o]), ...always.flatMap((o) => ['--always', o])),
  reject: (id: string, reason: string) => command('orch', 'reject', id, '--reason', reason),
  revise: (id: string, reason: string) => command('orch', 'reject', id, '--revise', '--reason', reason),
  accept,
  decline: (id: string) => command('orch', 'answer', id, '--decline'),
  resolve: (task: string, step: string, as: string, reason: string) => command('orch', 'resolve', task, step, '--as', as, ...why(reason)),
  cancel: (task: string, reason = '') => command('orch', 'cancel', task, ...why(reason)),
  pause: (task: string) => command('orch', 'pause', task),
  resume: (task: string) => command('orch', 'resume', task),
  retry: (task: string, from = '') => command('orch', 'retry', task, ...(from ? ['--from', from] : [])),
  redrive: (...tasks: string[]) => command('orch', 'redrive', ...tasks),
  replay: (task: string, rev: number) => command('orch', 'replay', task, '--at', String(rev)),
  explain: (task: string) => command('orch', 'explain', task),
  diff: (a: string, b: string) => command('orch', 'diff', a, b),
  agentSay: (task: string, step: string, text: string, end: boolean) => command('orch', 'agent', 'say', task, ...(text ? [text] : []), '--step', step, ...(end ? ['--end'] : [])),
  agentShow: (task: string, step: string, rev: number) => command('orch', 'agent', 'show', task, step, ...(rev ? ['--rev', String(rev)] : [])),
  fork: (task: string, at: string, set: [string, Json][] = [], live = '', repeat = false) =>
    command('orch', 'fork', task, ...(at ? ['--at', at] : []), ...set.flatMap(([k, v]) => ['--set', typeof v === 'string' ? `${k}=${v}` : `${k}:=${JSON.stringify(v)}`]),
      ...(live ? ['--live-from', live] : []), ...(repeat ? ['--repeat', 'all'] : [])),
  undo: (session: string, force: boolean) => command('orch', 'undo', session, ...(force ? ['--force'] : [])),
  pauseNode: (reason: string) => command('orch', 'pause', '--node', ...why(reason)),
  resumePause: (kind: string, name: string, reason: string) => command('orch', 'resume', '--' + kind, ...(kind === 'node' ? [] : [name]), ...why(reason)),
  costs: (by: string, since: string) => command('orch', 'costs', ...(by === 'day' ? [] : ['--by', by]), '--since', since),
  doctor: () => command('orch', 'doctor'),
  policyShow: (file: string) => command('orch', 'policy', 'show', ...(file ? ['--policy', file] : [])),
  policyExplain: (tool: string, args: Record<string, Json>, by: string, task: string) =>
    command('orch', 'policy', 'explain', tool, ...pairs(args), ...(by ? ['--by', by] : []), ...(task ? ['--task', task] : [])),
  policyTest: (since: string, tool: string, state: string, label: string) =>
    command('orch', 'policy', 'test', 'policy.yaml', '--since', since, ...(tool ? ['--tool', tool] : []), ...(state ? ['--state', state] : []), ...(label ? ['--label', label] : [])),
  scheduleCreate: () => "orch schedule create nightly report.yaml --cron '30 2 * * *'",
  scheduleTrigger: (name: string) => command('orch', 'schedule', 'trigger', name),
  schedulePause: (name: string) => command('orch', 'schedule', 'pause', name),
  scheduleResume: (name: string) => command('orch', 'schedule', 'resume', name),
  scheduleDelete: (name: string) => command('orch', 'schedule', 'delete', name),
  hookCreate: () => 'orch hook create deploy deploy.yaml --provider github --secret-file github.secret',
  destinationCreate: () => "orch destination create pager https://example.com/orch --event task.failed --secret-file secret.txt",
  hookTest: (name: string, body: string, event: string) =>
    `${command('printf', '%s', body)} | ${command('orch', 'hook', 'test', name, '--body', '-', ...(event ? ['--event', event] : []))}`,
  webhookPause: (kind: string, name: string, note: string) => command('orch', kind, 'pause', name, ...(note ? ['--note', note] : [])),
  webhookRotate: (kind: string, name: string, keep: string) => command('orch', kind, 'rotate', name, '--secret-file', 'new.secret', ...(keep === '24h' ? [] : ['--keep', keep])),
  /** webhook is another act on a hook or a destination. */
  webhook: (kind: string, act: string, name: string, ...ids: string[]) => command('orch', kind, act, name, ...ids),
  retain: () => command('orch', 'retain', '--dry-run', '--tasks', '20'),
  hold: (task: string, reason: string) => command('orch', 'hold', task, '--reason', reason),
  holdList: (released: boolean) => command('orch', 'hold', 'list', ...(released ? ['--released'] : [])),
  holdRelease: (task: string, reason: string, note: string) => command('orch', 'hold', 'release', task, ...why(reason), ...(note ? ['--note', note] : [])),
  auditList: () => command('orch', 'audit', 'list'),
  auditExport: () => command('orch', 'audit', 'export', 'audit.jsonl'),
  agents: () => command('orch', 'agents'),
  agentRun: () => command('orch', 'agent', 'run', '--name', 'builder', '--type', 'developer', '--capability', 'build', '--exec', '--', './build.sh'),
  mcpTest: (server: string) => command('orch', 'mcp', 'test', server),
  mcpImport: () => 'orch mcp import ~/.cursor/mcp.json',
  mcpAccept: (server: string, tool: string) => command('orch', 'mcp', 'accept', server, tool),
  result: (task: string) => command('orch', 'result', task),
  output: (task: string, step: string) => command('orch', 'get', task, '--step', step),
  files: (task: string) => command('orch', 'files', task),
  file: (task: string, path: string) => command('orch', 'files', task, path),
  export: (task: string) => command('orch', 'export', task, '--to', `${task}.orch`),
}
