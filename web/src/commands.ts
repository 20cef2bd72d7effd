// The commands of the command line that do the same as the buttons of the page.
import type { Json } from './api.ts'
import { command } from './format.ts'
import { record } from './json.ts'
import { orch } from './reach.ts'

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
  return orch('answer', id, ...how)
}

export const commands = {
  approve: (id: string, reason: string, form: Json, opens: string[], always: string[]) =>
    orch('approve', id, ...(plain(form) ?? ['--form', JSON.stringify(form)]), ...why(reason), ...opens.flatMap((o) => ['--for-session', o]), ...always.flatMap((o) => ['--always', o])),
  reject: (id: string, reason: string) => orch('reject', id, '--reason', reason),
  revise: (id: string, reason: string) => orch('reject', id, '--revise', '--reason', reason),
  accept,
  decline: (id: string) => orch('answer', id, '--decline'),
  resolve: (task: string, step: string, as: string, reason: string) => orch('resolve', task, step, '--as', as, ...why(reason)),
  cancel: (task: string, reason = '') => orch('cancel', task, ...why(reason)),
  pause: (task: string) => orch('pause', task),
  resume: (task: string) => orch('resume', task),
  retry: (task: string, from = '') => orch('retry', task, ...(from ? ['--from', from] : [])),
  redrive: (...tasks: string[]) => orch('redrive', ...tasks),
  replay: (task: string, rev: number) => orch('replay', task, '--at', String(rev)),
  traceExport: (task: string, to: string) => orch('trace', 'export', task, '--tree', '--to', to),
  explain: (task: string) => orch('explain', task),
  diff: (a: string, b: string) => orch('diff', a, b),
  agentSay: (task: string, step: string, text: string, end: boolean) => orch('agent', 'say', task, ...(text ? [text] : []), '--step', step, ...(end ? ['--end'] : [])),
  agentShow: (task: string, step: string, rev: number) => orch('agent', 'show', task, step, ...(rev ? ['--rev', String(rev)] : [])),
  fork: (task: string, at: string, set: [string, Json][] = [], live = '', repeat = false) =>
    orch('fork', task, ...(at ? ['--at', at] : []), ...set.flatMap(([k, v]) => ['--set', typeof v === 'string' ? `${k}=${v}` : `${k}:=${JSON.stringify(v)}`]),
      ...(live ? ['--live-from', live] : []), ...(repeat ? ['--repeat', 'all'] : [])),
  /** forkDry and undoDry say what would be done, as the buttons do that open a preview. */
  forkDry: (task: string, at: string) => orch('fork', task, ...(at ? ['--at', at] : []), '--dry-run'),
  undoDry: (session: string) => orch('undo', session, '--dry-run'),
  undo: (session: string, force: boolean) => orch('undo', session, ...(force ? ['--force'] : [])),
  pauseNode: (reason: string) => orch('pause', '--node', ...why(reason)),
  resumePause: (kind: string, name: string, reason: string) => orch('resume', '--' + kind, ...(kind === 'node' ? [] : [name]), ...why(reason)),
  costs: (by: string, since: string) => orch('costs', ...(by === 'day' ? [] : ['--by', by]), '--since', since),
  doctor: () => orch('doctor'),
  policyShow: (file: string) => orch('policy', 'show', ...(file ? ['--policy', file] : [])),
  policyExplain: (tool: string, args: Record<string, Json>, by: string, task: string) =>
    orch('policy', 'explain', tool, ...pairs(args), ...(by ? ['--by', by] : []), ...(task ? ['--task', task] : [])),
  policyTest: (since: string, tool: string, state: string, label: string) =>
    orch('policy', 'test', 'policy.yaml', '--since', since, ...(tool ? ['--tool', tool] : []), ...(state ? ['--state', state] : []), ...(label ? ['--label', label] : [])),
  scheduleCreate: () => orch('schedule', 'create', 'nightly', 'report.yaml', '--cron', '30 2 * * *'),
  scheduleTrigger: (name: string) => orch('schedule', 'trigger', name),
  schedulePause: (name: string) => orch('schedule', 'pause', name),
  scheduleResume: (name: string) => orch('schedule', 'resume', name),
  scheduleDelete: (name: string) => orch('schedule', 'delete', name),
  hookCreate: () => orch('hook', 'create', 'deploy', 'deploy.yaml', '--provider', 'github', '--secret-file', 'github.secret'),
  destinationCreate: () => orch('destination', 'create', 'pager', 'https://example.com/orch', '--event', 'task.failed', '--secret-file', 'secret.txt'),
  hookTest: (name: string, body: string, event: string) =>
    `${command('printf', '%s', body)} | ${orch('hook', 'test', name, '--body', '-', ...(event ? ['--event', event] : []))}`,
  webhookPause: (kind: string, name: string, note: string) => orch(kind, 'pause', name, ...(note ? ['--note', note] : [])),
  webhookRotate: (kind: string, name: string, keep: string) => orch(kind, 'rotate', name, '--secret-file', 'new.secret', ...(keep === '24h' ? [] : ['--keep', keep])),
  /** webhook is another act on a hook or a destination. */
  webhook: (kind: string, act: string, name: string, ...ids: string[]) => orch(kind, act, name, ...ids),
  retain: () => orch('retain', '--dry-run', '--tasks', '20'),
  hold: (task: string, reason: string) => orch('hold', task, '--reason', reason),
  holdList: (released: boolean) => orch('hold', 'list', ...(released ? ['--released'] : [])),
  holdRelease: (task: string, reason: string, note: string) => orch('hold', 'release', task, ...why(reason), ...(note ? ['--note', note] : [])),
  auditList: () => orch('audit', 'list'),
  auditExport: () => orch('audit', 'export', 'audit.jsonl'),
  agents: () => orch('agents'),
  agentRun: () => orch('agent', 'run', '--name', 'builder', '--type', 'developer', '--capability', 'build', '--exec', '--', './build.sh'),
  mcpTest: (server: string) => orch('mcp', 'test', server),
  mcpImport: () => `${orch('mcp', 'import')} ~/.cursor/mcp.json`, // the shell replaces the ~
  mcpAccept: (server: string, tool: string) => orch('mcp', 'accept', server, tool),
  result: (task: string) => orch('result', task),
  output: (task: string, step: string) => orch('get', task, '--step', step),
  files: (task: string) => orch('files', task),
  file: (task: string, path: string) => orch('files', task, path),
  export: (task: string) => orch('export', task, '--to', `${task}.orch`),
}
