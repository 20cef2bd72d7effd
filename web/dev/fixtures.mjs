// The tasks of the mock: a builder for histories, and the tasks that the stories know by name.

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const base32 = (n, width) => {
  let text = ''
  for (let rest = n; text.length < width; rest = Math.floor(rest / 32)) text = alphabet[rest % 32] + text
  return text
}

/** taskID returns the id of the task with a number; higher numbers are newer. */
export const taskID = (n) => `TASK_01M8CYRB0K${base32(n * 7919 + 33_554_432, 8)}${base32((n * 104_729) % 1_073_741_824, 8)}`

const taskTo = {
  'task.started': 'IN_PROGRESS', 'task.approval_requested': 'AWAITING_APPROVAL', 'task.approved': 'IN_PROGRESS', 'task.rejected': 'FAILED',
  'task.blocked': 'BLOCKED', 'task.unblocked': 'IN_PROGRESS', 'task.finished': 'DONE', 'task.failed': 'FAILED', 'task.cancelled': 'CANCELLED',
  'task.revised': 'NEEDS_ACTION', 'task.expired': 'BLOCKED', 'task.resumed': 'IN_PROGRESS',
}
const stepTo = {
  'step.ready': 'ready', 'step.called': 'running', 'step.parked': 'parked', 'step.succeeded': 'succeeded', 'step.failed': 'failed',
  'step.retrying': 'pending', 'step.waiting': 'running', 'step.in_doubt': 'in_doubt', 'step.resolved': 'succeeded', 'step.cancelled': 'cancelled',
  'agent.started': 'running', 'step.expanded': 'running', 'step.skipped': 'skipped', 'step.spawned': 'running', 'step.reused': 'succeeded',
}

/** Story builds the history of one task, and the view of it as it grows. */
export class Story {
  constructor(n, name, startedAgo, { plan, inputs = {}, labels, requestor = 'user:ada', priority = 'normal', ...rest } = {}) {
    this.commits = []
    this.at = Date.now() - startedAgo
    this.steps = new Map()
    this.view = {
      id: taskID(n), name, state: 'NEEDS_ACTION', priority, labels, requestor, inputs, steps: [], rev: 0, created_at: new Date(this.at).toISOString(),
      updated_at: new Date(this.at).toISOString(), ...rest,
    }
    this.commit(0, requestor, ['task.submitted', { name, plan: { name, orch: 'v1', steps: plan ?? [] }, inputs, priority }])
    for (const s of plan ?? []) this.steps.set(s.id, { key: s.id, kind: s.agent ? 'agent' : s.tool ? 'tool' : 'set', state: 'pending', tool: s.tool })
  }

  /** commit appends events after some milliseconds. */
  commit(later, actor, ...events) {
    this.at += later
    const at = new Date(this.at).toISOString()
    this.view.rev++
    this.view.updated_at = at
    this.commits.push({
      seq: this.view.rev, rev: this.view.rev, at, actor, hash: `h${this.view.rev}`, prev: this.view.rev > 1 ? `h${this.view.rev - 1}` : undefined,
      events: events.map(([kind, data = {}]) => ({ kind, data })),
    })
    for (const [kind, data = {}] of events) this.apply(kind, data, at)
    this.view.steps = [...this.steps.values()]
    return this
  }

  apply(kind, data, at) {
    if (taskTo[kind]) this.move(taskTo[kind], data, at)
    if (kind === 'task.paused') this.view.paused = true
    if (kind === 'task.resumed') this.view.paused = false
    if (!data.step || !stepTo[kind]) return
    const before = this.steps.get(data.step) ?? { key: data.step, kind: 'tool' }
    const resolved = kind === 'step.resolved' && { failed: 'failed', retry: 'pending' }[data.as]
    const { tool = before.tool, attempt = before.attempt, worker = before.worker, output, error, reason, approval } = data
    this.steps.set(data.step, { ...before, tool, attempt, worker, output, error, reason, approval, state: resolved || stepTo[kind], since: at })
  }

  move(state, data, at) {
    Object.assign(this.view, { state, reason: data.reason, block: data.block })
    if (data.output !== undefined) this.view.output = data.output
    if (data.error) this.view.error = data.error
    if (['DONE', 'FAILED', 'CANCELLED'].includes(state)) this.view.ended_at = at
  }

  /** call runs one attempt of a step: it waits in the queue, runs and ends. */
  call(step, tool, { args = {}, queued = 400, ran = 2000, attempt = 1, end = ['step.succeeded', { output: { ok: true } }], effect = 'read', log } = {}) {
    this.commit(20, 'node', ['step.ready', { step, attempt, tool, args, effect }])
    const called = new Date(this.at + queued).toISOString()
    const first = this.view.state === 'NEEDS_ACTION' ? [['task.started', {}]] : []
    this.commit(queued, 'worker:w1', ...first, ['step.called', { step, attempt, worker: 'w1', at: called }])
    const [kind, data] = end
    const lines = log ? [['log.written', { step, level: log[0], message: log[1], at: called }]] : []
    if (kind) this.commit(ran, 'worker:w1', ...lines, [kind, { step, attempt, duration: ran * 1e6, ...data }])
    return this
  }

  summary() {
    const { id, name, state, block, paused, priority, labels, requestor, session, parent, reason, created_at, updated_at, stuck } = this.view
    return { id, name, state, block, paused, priority, labels, requestor, session, parent, reason, created_at, updated_at, stuck: stuck && state === 'NEEDS_ACTION' }
  }
}

const minute = 60_000
const later = (ms) => new Date(Date.now() + ms).toISOString()

export const reportPlan = [
  { id: 'status', tool: 'GIT_STATUS', with: {} },
  { id: 'files', tool: 'GLOB_SEARCH', needs: ['status'], with: {} },
  { id: 'notes', tool: 'GREP_SEARCH', needs: ['status'], with: {} },
  { id: 'fetch', tool: 'WEB_FETCH', needs: ['status'], with: {} },
  { id: 'facts', set: { n: '${{ len(steps.files.output.files) + len(steps.notes.output.matches) }}' } },
  { id: 'report', tool: 'FILE_WRITE', needs: ['facts', 'fetch'], with: {} },
  { id: 'publish', tool: 'GIT_PUSH', needs: ['report'], with: {} },
]

function report(n, name, ago, options) {
  return new Story(n, name, ago, { plan: reportPlan, inputs: { repo: '/srv/shop', branch: 'main', depth: 5000 }, labels: { team: 'core', kind: 'report' }, ...options })
    .call('status', 'GIT_STATUS', { args: { repository_path: '/srv/shop' }, ran: 800 })
    .call('files', 'GLOB_SEARCH', { args: { path: '/srv/shop', pattern: '**/*.go' }, ran: 1500, log: ['INFO', '412 files match'] })
    .call('notes', 'GREP_SEARCH', { args: { path: '/srv/shop', pattern: '\\b(TODO|FIXME)\\b' }, ran: 2300 })
    .call('fetch', 'WEB_FETCH', { args: { url: 'https://status.example.com/api' }, ran: 3000, end: ['step.retrying', { counts: true, class: 'transient', at: later(0), error: { name: 'NETWORK_ERROR', message: 'the connection was reset' } }], log: ['WARN', 'the connection was reset, another attempt follows'] })
    .call('fetch', 'WEB_FETCH', { args: { url: 'https://status.example.com/api' }, attempt: 2, ran: 1200, queued: 4000 })
    .commit(10, 'node', ['step.succeeded', { step: 'facts', output: { n: 431 } }])
}

function parkFor(story, approval, question) {
  story.commit(15, 'node', ['approval.requested', approval], ['step.parked', { step: approval.step, approval: approval.id }], ['task.approval_requested', { reason: question }])
  return story
}

/** approvalOf returns an approval for a step of a story, as the API shows it. */
export function approvalOf(story, tail, more) {
  const { id, name, requestor } = story.view
  return {
    id: `APR_${id.slice(5)}_${tail}`, task: id, task_name: name, status: 'pending', type: 'pre_execution', priority: 'medium', requester: `task:${id}`,
    submitter: requestor, requested_at: later(-6 * minute), expires_at: later(54 * minute), on_expiry: 'block', details: null, task_state: 'AWAITING_APPROVAL', ...more,
  }
}

const request = ({ id, step, type, tool, description, priority, requester, expires_at, on_expiry }) =>
  ({ id, step, type, tool, description, priority, requester, expires_at, on_reject: 'fail', on_expiry })

/** named returns the tasks that the stories use, with what waits in them. */
export function named() {
  const done = report(10_020, 'nightly-report', 95 * minute)
    .call('report', 'FILE_WRITE', { args: { file_path: 'outputs/report.md', content: '# shop\n\nBranch `main`\n' }, effect: 'write', ran: 300 })
  const grant = approvalOf(done, 'DONEDONE', { step: 'publish', tool: 'GIT_PUSH', description: 'push main' })
  parkFor(done, request(grant), 'waits for approval')
  done.commit(38 * minute, 'user:eve', ['approval.granted', { id: grant.id, approver: 'user:eve', reason: 'as planned', at: later(-50 * minute) }], ['task.approved', {}])
    .call('publish', 'GIT_PUSH', { args: { remote: 'origin', branch: 'main' }, effect: 'write', ran: 5200, log: ['INFO', 'pushed 3 commits'] })
    .commit(5, 'node', ['task.finished', { output: { report: 'outputs/report.md', notes: 19 } }])

  const failed = report(10_021, 'nightly-report', 40 * minute)
    .call('report', 'FILE_WRITE', { args: { file_path: 'outputs/report.md' }, effect: 'write', ran: 400 })
    .call('publish', 'GIT_PUSH', { args: { remote: 'origin', branch: 'main' }, effect: 'write', ran: 2500, end: ['step.failed', { class: 'permanent', error: { name: 'TOOL_FAILED', message: 'remote rejected: the branch main is protected', hint: 'push to another branch' } }], log: ['ERROR', 'remote rejected: the branch main is protected'] })
    .commit(2, 'node', ['task.failed', { reason: 'step publish failed', error: { name: 'TOOL_FAILED', message: 'step publish failed: remote rejected: the branch main is protected' } }])

  const waits = report(10_022, 'deploy-shop', 11 * minute, { labels: { team: 'core', env: 'prod' }, priority: 'high' })
  const deploy = approvalOf(waits, 'DEPLOYAA', {
    step: 'report', tool: 'BASH_EXECUTE', description: 'Deploy shop 1.4.2 to production?', risk: 'high', priority: 'high', caller: 'agent:claude',
    args: { command: './deploy.sh prod "$1"\n./smoke.sh --retries 3', argv: ['1.4.2'], timeout_ms: 120000, order: '@BIG@' },
    args_sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', rationale: 'All tests passed on main (412 of 412).\nThe last deployment was two days ago.',
    offers: ['program ./deploy.sh'], lasting: ['endpoint https://deploy.example.com:443'],
    form: { type: 'object', required: ['window'], properties: { window: { type: 'string', title: 'Window', enum: ['now', 'tonight'], description: 'When it may start.' }, canary: { type: 'integer', title: 'Canary share in percent', minimum: 0, maximum: 100, default: 10 }, notify: { type: 'boolean', title: 'Tell the channel' } } },
  })
  parkFor(waits, request(deploy), 'Step report waits for approval: Deploy shop 1.4.2 to production?')

  const asks = report(10_023, 'import-customers', 8 * minute)
  const question = {
    id: `ASK_${asks.view.id.slice(5)}_QUESTION`, task: asks.view.id, task_name: asks.view.name, step: 'report', tool: 'DATABASE_IMPORT', key: 'account', kind: 'elicitation', status: 'open',
    params: { message: 'Which account do the 3,812 rows belong to?', requestedSchema: { type: 'object', required: ['account', 'email'], properties: { account: { type: 'string', title: 'Account', oneOf: [{ const: 'eu', title: 'Europe' }, { const: 'us', title: 'United States' }] }, email: { type: 'string', format: 'email', title: 'Confirmation to' }, limit: { type: 'integer', title: 'Row limit', minimum: 1 } } } },
    asked_at: later(-4 * minute), expires_at: later(56 * minute),
  }
  asks.call('report', 'DATABASE_IMPORT', { args: { rows: 3812 }, effect: 'write', end: [] })
    .commit(900, 'worker:w1', ['question.asked', { id: question.id, step: 'report', key: 'account', kind: 'elicitation' }], ['step.parked', { step: 'report', questions: [question.id] }], ['task.blocked', { block: 'input', reason: 'Step report waits for an answer: Which account do the 3,812 rows belong to?' }])
  asks.view.questions = [question]

  const doubt = report(10_024, 'charge-invoices', 25 * minute)
    .call('report', 'HTTP_REQUEST', { args: { method: 'POST', url: 'https://billing.example.com/charges', body: { invoice: 'R-2041', cents: 129900 } }, effect: 'write', ran: 60_000, end: ['step.in_doubt', { reason: 'the worker w1 stopped answering during the call' }] })
    .commit(3, 'node', ['task.blocked', { block: 'input', reason: 'Step report is in doubt: it is unknown whether its call happened' }])

  const running = report(10_025, 'reindex-search', 3 * minute).call('report', 'BASH_EXECUTE', { args: { command: 'make reindex' }, effect: 'write', end: [] })
  running.steps.get('report').progress = { done: 340, total: 1200, message: 'documents' }

  const hostile = report(10_026, '<img src=x onerror=alert(1)>\u202Etxt.exe\u200B\u001B[31m', 5 * minute, { labels: { 'a\u2066b': '"><script>alert(2)</script>' } })
  const evil = approvalOf(hostile, 'HOSTILEA', {
    step: 'report', tool: 'BASH_EXECUTE', description: 'Run \u202Ehs.elif\u202C <b>now</b>\u200B?', risk: 'medium',
    args: { command: 'rm -rf /tmp/x\u200B # \u202Eharmless\u202C\n<script>alert(3)</script>' }, rationale: 'javascript:alert(4) \u001B[2J',
    calls: Array.from({ length: 3 }, (_, i) => ({ step: `each[${i}].<b>run</b>`, tool: 'BASH_EXECUTE', args: { command: './score.sh "$1"', argv: [`/srv/files/\u202Efile-${i}`] } })),
  })
  parkFor(hostile, request(evil), 'waits for approval')

  const small = Array.from({ length: 4 }, (_, i) => {
    const story = report(10_030 + i, `rotate-key-${i + 1}`, (20 + i) * minute, { labels: { team: 'ops' }, requestor: 'agent:ci' })
    const approval = approvalOf(story, `ROTATE0${i}`, { step: 'report', tool: 'SECRET_ROTATE', description: `Rotate the key of service ${i + 1}`, risk: 'low', args: { service: `svc-${i + 1}`, keep_old: '24h' } })
    parkFor(story, request(approval), 'waits for approval')
    return { story, approval }
  })
  const late = report(10_029, 'publish-site', 3 * 60 * minute)
  const expired = approvalOf(late, 'EXPIRED0', {
    step: 'publish', tool: 'GIT_PUSH', description: 'Publish the site?', status: 'expired', requested_at: later(-170 * minute), expires_at: later(-160 * minute), task_state: 'BLOCKED',
  })
  parkFor(late, request(expired), 'waits for approval')
  late.commit(10 * minute, 'node', ['approval.expired', { id: expired.id }], ['task.expired', { block: 'expired', reason: 'Nobody decided about the approval in time' }])

  const stuck = new Story(10_028, 'train-model', 33 * minute, { plan: reportPlan, queue: 'gpu', stuck: true })
    .commit(5, 'node', ['step.ready', { step: 'status', attempt: 1, tool: 'GIT_STATUS', effect: 'read' }])
  stuck.view.reason = 'Step status is ready, but no worker serves queue gpu.'
  return {
    stories: [done, failed, waits, asks, doubt, running, hostile, ...small.map((s) => s.story), review(), stuck, late],
    approvals: [deploy, evil, ...small.map((s) => s.approval), expired], questions: [question],
  }
}

const script = '<script>alert(5)</script> \u202Etxt.exe'

/** said are the turns of the agent of a review: what its model says and calls. The last one has no answer yet. */
const said = [
  { text: 'I will read the change.', calls: [['GIT_DIFF', { repository_path: '/srv/shop' }, '@@ -1 +1 @@\n-milk\n+oat milk'], ['FILE_READ', { file_path: `/srv/${script}` }, undefined, 'NOT_FOUND: the file does not exist']] },
  ...Array.from({ length: 22 }, (_, i) => ({ text: `I look at file ${i + 1}.`, calls: [['GREP_SEARCH', { pattern: 'TODO', path: `/srv/shop/${i + 1}.go` }, `{"matches":[${i}]}`]] })),
  { text: `The change is fine.\n<b>But</b> ${script}\n[16384 of 20000 bytes are shown]`, calls: [['FILE_DELETE', { file_path: '/srv/shop/old.go' }]] },
]

/** review returns a task whose step is an agent, with the revisions at which its turns were asked and answered, and their calls have ended. */
function review() {
  const story = new Story(10_027, 'review-change', 4 * minute, { plan: [{ id: 'review', agent: { model: 'acme/large', prompt: 'Review it.' } }], labels: { team: 'core' } })
  story.turns = said.map(({ text, calls }, i) => {
    const n = i + 1
    story.commit(100, 'node', ...(i ? [] : [['task.started', {}], ['agent.started', { step: 'review' }]]), ['turn.requested', { step: 'review', turn: n }], ['step.ready', { step: `review.t${n}.m`, attempt: 1, tool: 'MODEL_CALL', effect: 'idempotent' }])
    const turn = { turn: n, text, calls, asked: story.view.rev, at: new Date(story.at).toISOString() }
    story.commit(900, 'worker:w1', ['step.called', { step: `review.t${n}.m`, attempt: 1, worker: 'w1', at: turn.at }], ['step.succeeded', { step: `review.t${n}.m`, attempt: 1, duration: 9e8, output: {} }],
      ['turn.answered', { step: 'review', turn: n }], ...calls.map(([tool, args], k) => ['step.ready', { step: `review.t${n}.c${k + 1}`, attempt: 1, tool, args, effect: 'read' }]))
    turn.answered = story.view.rev
    for (const [k, [, , result, failed]] of calls.entries()) {
      const step = `review.t${n}.c${k + 1}`
      if (failed) story.commit(10, 'worker:w1', ['step.failed', { step, error: { name: 'NOT_FOUND', message: failed } }])
      else if (result) story.commit(10, 'worker:w1', ['step.called', { step, attempt: 1, worker: 'w1', at: turn.at }], ['step.succeeded', { step, attempt: 1, duration: 3e6, output: result }])
    }
    turn.ended = n < said.length ? story.view.rev : Infinity
    return turn
  })
  return story
}

/** conversation answers as the node does: turns of the agent of a review, at a revision. */
export function conversation(story, step, { rev, from, limit }) {
  const at = rev || story.view.rev
  const turns = story.turns.filter((t) => t.asked <= at)
  const first = Math.max(1, from < 0 ? turns.length + from + 1 : from || 1)
  const page = turns.slice(first - 1, first - 1 + (limit || 20))
  const done = turns.filter((t) => t.answered <= at)
  return {
    id: story.view.id, step, rev: at, state: at >= 2 ? 'running' : 'pending', models: ['acme/large', `acme/${script}`], instructions: 'You review changes.\nBe kind.', prompt: `Review the change of shop. ${script}`,
    tools: ['FILE_READ', 'GIT_DIFF', 'GREP_SEARCH'], limits: { max_turns: 50, max_tokens: 8192, nano_usd: 5e8, calls: 40 }, used: { nano_usd: done.length * 1_234_500, tokens: done.length * 1500, calls: done.length },
    total: turns.length, turns: page.map((t) => turnView(t, at, limit === 1)), next: first + page.length <= turns.length ? first + page.length : undefined,
  }
}

/** stubbed is the turn whose calls are answered by stubs, in a request that differs from the record. */
const stubbed = 20

function turnView(t, at, whole) {
  const head = { turn: t.turn, asks: `review.t${t.turn}.m`, attempt: 1, asked_at: t.at }
  if (t.answered > at) return { ...head, state: 'asking', reserved: { nano_usd: 9_000_000, tokens: 12_000 } }
  const text = whole ? t.text.replace(/\n\[.*$/, '\nThat is all.') : t.text
  const calls = t.calls.map(([tool, args, result, failed], k) => ({
    step: `review.t${t.turn}.c${k + 1}`, tool, args: JSON.stringify(args), ...(t.ended > at ? { state: 'ready' } : { state: failed ? 'failed' : 'succeeded', result: failed ?? result, failed: Boolean(failed), duration: 3e6 }), ...(t.turn === stubbed ? { recorded: true } : {}),
  }))
  return { ...head, ...(t.turn === stubbed ? { differs: ['instructions', 'tools'] } : {}), state: t.ended > at ? 'acting' : 'answered', model: 'acme/large', stop: 'calls', text, calls, usage: { input: 900, cache_read: 500, output: 100 }, nano_usd: 1_234_500, duration: 9e8 }
}

/** long returns a task with a history of about so many events. */
export function long(events) {
  const plan = Array.from({ length: 40 }, (_, i) => ({ id: `part-${i}`, tool: 'BASH_EXECUTE', needs: i % 8 ? [`part-${i - 1}`] : [], with: {} }))
  const story = new Story(10_040, 'replay-archive', 2 * 3600_000, { plan })
  story.commit(5, 'node', ['task.started', {}])
  for (let i = 0; story.view.rev * 2 < events - 4; i++) {
    const step = `part-${i % 40}`
    const attempt = Math.floor(i / 40) + 1
    story.commit(20, 'node', ['step.ready', { step, attempt, tool: 'BASH_EXECUTE', args: { page: i }, effect: 'read' }])
    story.commit(30, 'worker:w1', ['step.called', { step, attempt, worker: 'w1', at: new Date(story.at + 30).toISOString() }])
    story.commit(40, 'worker:w1', ['log.written', { step, level: 'INFO', message: `page ${i} has 100 rows`, at: new Date(story.at).toISOString() }], ['file.read', { path: `p/${i}`, sha256: 'ab' }], ['file.read', { path: `q/${i}`, sha256: 'cd' }], ['step.retrying', { step, attempt, counts: false, round: attempt, at: new Date(story.at).toISOString() }])
  }
  return story
}

/** session returns the task of a session of an MCP client. */
export const session = (n, who, ago, open) => {
  const story = new Story(n, `orch/session/${who}-${n}`, ago, { requestor: who, plan: [{ id: 'open', wait: { signal: 'session.end' } }] })
  story.commit(1, 'node', ['task.started', {}], ['step.waiting', { step: 'open', signal: 'session.end' }])
  if (!open) story.commit(1000, who, ['signal.received', { name: 'session.end' }], ['step.succeeded', { step: 'open' }], ['task.finished', {}])
  return story
}
