// The policy of the mock node.
import { taskID } from './fixtures.mjs'

const text = `version: 1
default: allow
rules:
  - name: no-push
    action: deny
    reason: people push
    commands: ["git push*"]
    agents: ["agent:*"]

  - name: partners
    action: ask
    reason: "<b>look</b> at whom it goes to\u202e"
    hosts: ["*.example.com"]
`
const rules = [
  { name: 'no-push', action: 'deny', line: 4, reason: 'people push', criteria: { commands: ['git push*'], agents: ['agent:*'] } },
  { name: 'partners', action: 'ask', line: 10, reason: '<b>look</b> at whom it goes to\u202e', criteria: { hosts: ['*.example.com'] } },
]
const file = '/etc/orch/policy.yaml'

class Refusal extends Error {
  constructor(status, code, message, more) {
    super(message)
    Object.assign(this, { status, code, more })
  }
}

/** policy returns the policy in effect: none in a world without a policy. */
export function policy(world) {
  const tools = ['BASH_EXECUTE', 'FILE_READ', 'FILE_WRITE', 'WEB_FETCH']
  if (world.policy === 'none') return { default: 'allow', rules: [], tools }
  return { file, text, sha256: '5f2b9f1c'.repeat(8), changed: true, default: 'allow', rules, tools }
}

/** explain judges a call: agents do not push, and writes are asked for. */
export function explain({ tool, args, agent }) {
  if (!policy({}).tools.includes(tool)) throw new Refusal(404, 'NOT_FOUND', 'there is no such tool', { field: 'tool', hint: 'did you mean FILE_READ?' })
  const pushes = agent.startsWith('agent:') && String(args.command ?? '').startsWith('git push')
  const rule = { rule: 'no-push', action: 'deny', line: 4 }
  if (pushes) {
    return {
      action: 'deny', effect: 'destructive', file: { action: 'deny', rule: 'no-push', reason: 'people push' }, matches: [rule],
      refused: { name: 'FORBIDDEN', message: 'the rule no-push of the policy file denies BASH_EXECUTE: people push', reason: 'POLICY_DENIED', hint: 'no approval lifts this; see: orch policy show' },
    }
  }
  const passes = { file: { action: 'allow', rule: 'default', reason: 'no rule matches' }, matches: [], announces: tool === 'WEB_FETCH' }
  if (tool !== 'FILE_WRITE') return { action: 'allow', effect: 'read', ...passes }
  return { action: 'ask', effect: 'idempotent', ...passes, approval: { rule: 'outside_workspace', reason: `${args.file_path} lies outside the task's workspace`, type: 'checkpoint', risk: 'medium', instead: 'write inside task.workspace' } }
}

/** backtest judges three past calls: a policy without a version is refused, and a filter by another tool selects nothing. */
export function backtest({ policy: given, tool }) {
  if (!given.startsWith('version: 1')) throw new Refusal(400, 'VALIDATION_ERROR', 'the version is missing', { field: 'policy.yaml:1:1', hint: 'begin with version: 1' })
  const none = { rules: 1, examples: 0, tasks: 12, calls: 0, unjudged: 0, changes: [], changed: [] }
  if (tool && tool !== 'GIT_PUSH') return none
  const call = (n, step, before, after, rule) => ({
    task: taskID(n), step, tool: 'GIT_PUSH', agent: 'agent:ci', at: new Date(Date.now() - n * 60_000).toISOString(),
    before: { action: before, rule: 'default' }, after: { action: after, rule },
  })
  return {
    ...none, calls: 40, unjudged: 2, changes: [{ from: 'allow', to: 'deny', calls: 2 }, { from: 'deny', to: 'ask', calls: 1 }],
    changed: [call(10_020, 'publish', 'allow', 'deny', 'no-push'), call(10_021, '<i>publish</i>\u200b', 'allow', 'deny', 'no-push'), call(10_022, 'deploy', 'deny', 'ask', 'ask-first')],
  }
}
