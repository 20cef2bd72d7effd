// The state of the mock node: tasks, what waits for people, and who follows.
import { Story, long, named, reportPlan, session, taskID } from './fixtures.mjs'

const filler = 10_000
const terminal = new Set(['DONE', 'FAILED', 'CANCELLED'])

class Refusal extends Error {
  constructor(status, code, message, more) {
    super(message)
    Object.assign(this, { status, code, more })
  }
}

export class World {
  constructor({ role = 'operator', tasks = filler, events = 100_000, signedout = '', policy = '', services = '' }) {
    Object.assign(this, { role, policy, services, signedOut: signedout !== '', requests: [], followers: new Set(), responses: new Set(), paused: [], log: [], began: Date.now() })
    const set = named()
    this.approvalList = set.approvals
    this.questionList = set.questions
    this.stories = new Map()
    for (const s of [...set.stories, session(10_050, 'agent:claude', 600_000, true), session(10_051, 'agent:codex', 7_200_000, false)]) this.stories.set(s.view.id, s)
    for (const s of set.stories.slice(0, 4)) s.view.session = taskID(10_050) // what the session did
    this.longID = taskID(10_040)
    this.events = Number(events)
    this.fill(Number(tasks))
  }

  fill(n) {
    const names = ['nightly-report', 'sync-crm', 'build-image', 'review-pr', 'index-docs', 'send-digest']
    const states = ['DONE', 'DONE', 'DONE', 'DONE', 'FAILED', 'CANCELLED', 'IN_PROGRESS', 'NEEDS_ACTION', 'DONE']
    this.filler = Array.from({ length: n }, (_, i) => {
      const at = new Date(Date.now() - (n - i) * 47_000).toISOString()
      const state = states[(i * 7) % states.length]
      return {
        id: taskID(i), name: `${names[i % names.length]}-${i}`, state, priority: 'normal', labels: { team: i % 3 ? 'core' : 'ops' }, requestor: i % 4 ? 'user:ada' : 'agent:ci',
        reason: state === 'FAILED' ? 'step build failed: exit code 2' : undefined, created_at: at, updated_at: at,
      }
    }).reverse()
  }

  status() {
    return {
      version: '0.2.0-mock', identity: 'user:ada', role: this.role, ready: true, durability: 'fsync', syncing: 'group', root: '/srv', open: 2231, finished: 7781, queued: { default: 12 }, running: 3,
      workers: [{ name: 'w1', queues: ['default'], running: 3, seen_at: new Date().toISOString() }, { name: 'gpu-2', queues: ['gpu'], running: 0, seen_at: new Date(Date.now() - 95_000).toISOString(), silent: true }],
      paused: this.paused.length ? this.paused : [{ kind: 'queue', name: 'gpu', reason: 'the driver is being updated', by: 'user:eve', at: new Date(Date.now() - 1_800_000).toISOString() }],
      store: 'ok', storage: { used: 734_003_200, max_store: 21_474_836_480, free: 48_318_382_080, min_free: 1_073_741_824 }, started_at: new Date(this.began - 86_400_000).toISOString(), memory_mib: 131,
    }
  }

  summaries() { return [...[...this.stories.values()].map((s) => s.summary()), ...(this.events ? [this.longStory().summary()] : []), ...this.filler] }

  longStory() { return (this.longTask ??= long(this.events)) }

  story(id) {
    const known = this.stories.get(id) ?? (id === this.longID ? this.longStory() : undefined)
    if (known) return known
    const t = this.filler.find((f) => f.id === id)
    if (!t) throw new Refusal(404, 'NOT_FOUND', `there is no task ${id}`, { hint: 'orch list shows the tasks' })
    const story = new Story(0, t.name, Date.now() - Date.parse(t.created_at), { plan: reportPlan })
    Object.assign(story.view, t, { rev: 1 })
    this.stories.set(id, story)
    this.filler = this.filler.filter((f) => f.id !== id)
    return story
  }

  knows(id) { return this.stories.has(id) || id === this.longID || this.filler.some((f) => f.id === id) }

  list(q) {
    const states = q.getAll('state')
    const glob = q.get('name') && new RegExp(`^${q.get('name').replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`)
    const wants = (t) =>
      (!states.length || states.includes(t.state)) && (glob ? glob.test(t.name) : !t.name.startsWith('orch/')) && (!q.get('requestor') || t.requestor === q.get('requestor')) &&
      (!q.get('session') || t.session === q.get('session')) && (!q.get('since') || t.created_at >= q.get('since')) && (!q.get('changed_since') || t.updated_at >= q.get('changed_since')) &&
      q.getAll('label').every((l) => t.labels?.[l.split('=')[0]] === l.split('=')[1]) &&
      (!q.get('stuck') || t.stuck) && (!q.get('dead') || (t.state === 'FAILED' && !t.redriven) || (t.state === 'BLOCKED' && t.block !== 'dependency'))
    const dead = (q.get('dead') || q.get('stuck')) && !q.get('name') ? (t) => !this.filler.includes(t) : () => true
    const all = this.summaries().filter((t) => wants(t) && dead(t))
    const from = Number(q.get('cursor') ?? 0)
    const limit = Number(q.get('limit') ?? 50)
    return { tasks: all.slice(from, from + limit), next: from + limit < all.length ? String(from + limit) : undefined }
  }

  view(id) { return this.story(id).view }

  history(id, from, limit) {
    const { commits } = this.story(id)
    const page = commits.slice(from - 1, from - 1 + Math.min(limit, 1000))
    return { commits: page, next: from - 1 + page.length < commits.length ? from + page.length : undefined }
  }

  explain(id) {
    const { view } = this.story(id)
    const approval = this.approvalList.find((a) => a.task === id && a.status === 'pending')
    const causes = {
      DONE: { kind: 'over', sentence: 'The task is done.' }, FAILED: { kind: 'over', sentence: `The task has failed: ${view.error?.message ?? view.reason}.`, next: `orch retry ${id}` },
      CANCELLED: { kind: 'over', sentence: 'The task was cancelled.' }, IN_PROGRESS: { kind: 'running', sentence: 'Step report runs on worker w1 for 2m 40s.', step: 'report' },
      NEEDS_ACTION: view.stuck ? { kind: 'no_worker', step: 'status', sentence: 'Step status is ready, but no worker serves queue gpu.', next: 'orch worker --queue gpu' } : { kind: 'queued', sentence: 'Step status waits for a free worker; 12 calls are before it.' },
      AWAITING_APPROVAL: { kind: 'approval', sentence: `Step report waits for an approval: ${approval?.description ?? ''}`, approval: approval?.id, next: `orch approvals ${approval?.id}`, until: approval?.expires_at },
      BLOCKED: view.block === 'expired' ? { kind: 'approval', sentence: 'Step publish waits for an approval, about which nobody decided.', approval: this.approvalList.find((a) => a.task === id)?.id, next: `orch resume ${id}` } : { kind: 'in_doubt', sentence: `${view.reason}.`, next: `orch resolve ${id} report --as … (succeeded, failed or retry)` },
    }
    const paused = { kind: 'queue_paused', sentence: 'The queue gpu is paused by user:eve.', next: 'orch resume --queue gpu' }
    const continued = [...this.stories.values()].map((s) => s.view).filter((v) => v.retry_of === id).map((v) => ({ task: v.id, from: id, how: 'retry', name: v.name, state: v.state, created_at: v.created_at }))
    const next = continued.slice(-1).map((c) => ({ kind: 'continued', task: c.task, sentence: `The newest retry of it is ${c.state}: ${c.task}.` }))
    return { id, state: view.state, causes: view.state === 'IN_PROGRESS' ? [causes.IN_PROGRESS, paused] : [causes[view.state], ...next], continued }
  }

  replay(id) {
    const steps = {}
    for (const c of this.story(id).commits) for (const e of c.events) if (e.kind === 'step.ready') steps[e.data.step] = { key: e.data.step, args: e.data.args }
    return { task: { steps }, commits: 1, events: 1, chain: true }
  }

  act(id, verb, body) {
    this.requests.push({ verb, id, body })
    const story = this.story(id)
    const over = terminal.has(story.view.state)
    if (verb === 'fork') return this.fork(story, body)
    if (verb === 'undo') return this.undo(story, body)
    if (verb === 'retry' || verb === 'redrive') {
      if (story.view.state !== 'FAILED' && story.view.state !== 'CANCELLED') throw new Refusal(409, 'STATE_NOT_ALLOWED', `the task is ${story.view.state}`)
      story.view.redriven = true
      return this.again(story, { reused: 6 })
    }
    if (over) throw new Refusal(409, 'STATE_NOT_ALLOWED', `the task has ended: ${story.view.state}`)
    const events = { cancel: [['task.cancelled', { reason: 'cancelled by user:ada' }]], pause: [['task.paused', {}]], resume: [['task.resumed', {}]], resolve: [['step.resolved', { step: body.step, as: body.as, by: 'user:ada' }], ['task.unblocked', {}]] }
    story.at = Date.now()
    story.commit(0, 'user:ada', ...events[verb])
    for (const a of this.approvalList) if (a.task === id) a.task_state = story.view.state
    this.changed(story)
    return story.view
  }

  again(story, more) {
    const next = new Story(10_100 + this.stories.size, story.view.name, 1000, { plan: reportPlan, inputs: story.view.inputs, retry_of: story.view.id })
    this.stories.set(next.view.id, next)
    this.changed(next)
    return { id: next.view.id, state: 'NEEDS_ACTION', ...more }
  }

  /** undo answers as if a session had changed some files, one of which somebody has changed since. */
  undo(story, { force, dry_run: dry }) {
    const [changed, created, since] = ['/shop/src/cart.ts', '/shop/<img src=x>\u202e.txt', '/shop/README.md']
    const all = { restored: [changed, ...(force ? [since] : [])], removed: [created], conflicts: force ? [] : [since] }
    const at = new Date(Date.now() - 300_000).toISOString()
    const by = [{ task: [...this.stories.keys()][3], step: 'notes', at }, { who: 'somebody outside of sessions', at }]
    const later = [{ path: since, lost: Boolean(force), by, diff: `--- README.md\n+++ README.md\n@@ -1,2 +1,3 @@\n # Shop\n-How to build it\n+How to build it: make\n+<b>and test</b> it\n` }]
    const files = this.undone ? { restored: [], removed: [], conflicts: [] } : { ...all, later }
    this.undone ||= !dry
    return { task: story.view.id, done: true, ...files }
  }

  fork(story, body) {
    const preview = { at: Number(body.at) || body.at, reused: ['status', 'files', 'notes'], live: ['fetch', 'facts', 'report', 'publish'], stands_on: [{ step: 'notes', tool: 'FILE_WRITE', effect: 'write' }], repeats: [{ step: 'publish', tool: 'GIT_PUSH', effect: 'write' }] }
    return body.dry_run ? preview : { ...this.again(story, {}), ...preview }
  }

  diff(a, b) {
    const [x, y] = [this.story(a).view, this.story(b).view]
    return {
      a, b, same: 5, different: 2, entries: [
        ...(x.state === y.state ? [] : [{ part: 'task', path: 'state', a: x.state, b: y.state }, { part: 'task', path: 'error', ...(x.error ? { a: x.error } : {}), ...(y.error ? { b: y.error } : {}) }]),
        { part: 'inputs', path: 'depth', a: x.inputs.depth, b: 500 }, { part: 'steps', path: 'publish.state', a: 'succeeded', b: 'failed' },
        { part: 'output', path: 'output', a: x.output ?? 'outputs/report.md' }, { part: 'times', path: 'task', a: '38m 21s', b: `${y.rev} s` },
      ],
    }
  }

  queue() {
    const tasks = this.summaries().filter((t) => !terminal.has(t.state) && !t.name.startsWith('orch/')).slice(0, 20).map((t) => ({ ...t, status: 'pending', created_at: t.created_at }))
    return { tasks, stats: { total: 2231, pending: 1104, assigned: 7, in_progress: 1111, blocked: 9, wait: 84_000_000_000 } }
  }

  approvals(task, expired) {
    const wanted = (a) => (expired ? a.status === 'expired' && a.task_state === 'BLOCKED' : a.status === 'pending')
    return { approvals: this.approvalList.filter((a) => wanted(a) && (!task || a.task === task)) }
  }

  approval(id) {
    const a = this.approvalList.find((one) => one.id === id)
    if (!a) throw new Refusal(404, 'NOT_FOUND', `there is no approval ${id}`)
    return a
  }

  decide(id, body) {
    this.requests.push({ verb: 'decide', id, body })
    const a = this.approval(id)
    if (a.status !== 'pending') throw new Refusal(409, 'CONFLICT', `user:eve has decided meanwhile: ${a.status}`)
    if (a.form && body.as === 'granted' && !body.form?.window) throw new Refusal(400, 'VALIDATION_ERROR', 'window is required', { field: 'form.window' })
    a.status = body.as === 'granted' ? 'granted' : 'rejected'
    Object.assign(a, { approver: 'user:ada', reason: body.reason, decided_at: new Date().toISOString() })
    const story = this.story(a.task)
    story.at = Date.now()
    const events = body.as === 'granted'
      ? [['approval.granted', { id, approver: 'user:ada', at: a.decided_at, reason: body.reason }], ['task.approved', {}], ['step.ready', { step: a.step, attempt: 1, tool: a.tool, args: a.args, effect: 'write' }]]
      : [['approval.rejected', { id, approver: 'user:ada', at: a.decided_at, reason: body.reason }], ['task.rejected', { reason: 'rejected by user:ada' }]]
    story.commit(0, 'user:ada', ...events)
    this.changed(story)
    return a
  }

  questions() { return { questions: this.questionList.filter((q) => q.status === 'open') } }

  question(id) {
    const q = this.questionList.find((one) => one.id === id)
    if (!q) throw new Refusal(404, 'NOT_FOUND', `there is no question ${id}`)
    return q
  }

  answer(id, body) {
    this.requests.push({ verb: 'answer', id, body })
    const q = this.questionList.find((one) => one.id === id)
    if (q?.status !== 'open') throw new Refusal(409, 'CONFLICT', 'the question was answered')
    Object.assign(q, { status: 'answered', answered_by: 'user:ada', action: body.declined ? 'decline' : body.response.action, closed_at: new Date().toISOString() })
    const story = this.story(q.task)
    story.at = Date.now()
    story.commit(0, 'user:ada', ['question.answered', { id, by: 'user:ada', at: new Date().toISOString() }], ['task.unblocked', {}], ['step.ready', { step: q.step, attempt: 2, tool: q.tool, effect: 'write' }])
    this.changed(story)
    return story.view
  }

  control(verb, body) {
    this.requests.push({ verb, body })
    this.paused = verb === 'pause' && body.node ? [{ kind: 'node', reason: body.reason, by: 'user:ada', at: new Date().toISOString() }] : []
    return { paused: this.paused }
  }

  /** change lets something happen by itself: a task ends, or a new one comes. */
  change({ id, name }) {
    if (name) {
      const story = new Story(20_000 + this.stories.size, name, 0, { plan: reportPlan })
      this.stories = new Map([[story.view.id, story], ...this.stories])
      return this.changed(story)
    }
    const story = this.story(id)
    story.at = Date.now()
    story.commit(0, 'worker:w1', ['step.succeeded', { step: 'report', attempt: 1, output: { ok: true } }], ['task.finished', { output: { done: true } }])
    return this.changed(story)
  }

  changed(story) {
    this.log.push(story)
    for (const f of this.followers) f.changed(story)
  }

  counts() {
    const stuck = [...this.stories.values()].map((s) => s.view)
    return {
      approvals: this.approvals().approvals.length, questions: this.questions().questions.length,
      in_doubt: stuck.filter((v) => v.steps.some((s) => s.state === 'in_doubt')).length, dead: stuck.filter((v) => (v.state === 'FAILED' && !v.redriven) || v.block === 'expired').length,
      stuck: stuck.filter((v) => v.stuck && !terminal.has(v.state)).length,
    }
  }

  /** follow sends what changes, with positions in the log of this world. A position of another world is followed by a reset. */
  follow(after, send, res) {
    const place = () => `${this.log.length}-${this.began}`
    const [from, world] = after.split('-').map(Number)
    if (after && world !== this.began) send('reset', {})
    else if (after) for (const story of this.log.slice(from)) send('task', story.summary())
    send('inbox', this.counts(), place())
    this.join(res, { changed: (story) => { send('task', story.summary(), place()); send('inbox', this.counts()) } })
  }

  followTask(id, after, send, res) {
    let sent = after
    const push = (story) => {
      if (story.view.id !== id) return
      for (const c of story.commits.slice(sent)) send('commit', c, c.rev)
      sent = story.commits.length
      if (terminal.has(story.view.state)) send('end', { state: story.view.state })
    }
    push(this.story(id))
    this.join(res, { changed: push })
  }

  join(res, follower) {
    this.followers.add(follower)
    this.responses.add(res)
    res.on('close', () => { this.followers.delete(follower); this.responses.delete(res) })
  }

  hangUp() { for (const r of this.responses) r.destroy() }
}
