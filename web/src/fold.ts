// The fold of a history: the states of a task and its steps after each event. The transitions are the tables of the program
// (machine.json); the tables below say which fields an event changes.
import type { Commit, Event, EventData, FaultView, Json, StepState, TaskState } from './api.ts'
import { number, text, texts } from './json.ts'
import machine from './machine.json' with { type: 'json' }

export interface Step {
  readonly key: string
  readonly state: StepState
  readonly since: number
  readonly attempt: number
  readonly failures: number
  readonly repeats: number
  readonly lost: number
  readonly tool: string
  readonly effect: string
  readonly worker: string
  readonly reason: string
  readonly approval: string
  readonly signal: string
  readonly child: string
  readonly questions: readonly string[]
  readonly args?: Json
  readonly output?: Json
  readonly error?: FaultView | undefined
}

export interface Task {
  rev: number
  state: TaskState | ''
  since: number
  reason: string
  block: string
  paused: boolean
  cancelling: boolean
  ending: boolean
  plan?: Json
  inputs?: Json
  output?: Json
  error?: FaultView | undefined
  steps: Map<string, Step>
  approvals: Map<string, string>
  questions: Map<string, string>
  signals: string[]
  /** refused counts the events that the tables do not allow. A correct history has none. */
  refused: number
}

type Row = { from: string[]; to: string }
const taskRows: Record<string, Row | undefined> = machine.task
const stepRows: Record<string, Row | undefined> = machine.step

/** terminal reports whether a task in this state has ended. */
export const terminal = (state: string): boolean => machine.terminal.includes(state)
export const taskStates = machine.states as TaskState[]

export function emptyTask(): Task {
  return {
    rev: 0, state: '', since: 0, reason: '', block: '', paused: false, cancelling: false, ending: false,
    steps: new Map(), approvals: new Map(), questions: new Map(), signals: [], refused: 0,
  }
}

/** copy returns a task that can be folded further without changing the original. */
export function copy(t: Task): Task {
  return { ...t, steps: new Map(t.steps), approvals: new Map(t.approvals), questions: new Map(t.questions), signals: [...t.signals] }
}

/** fold applies the events of a commit to a task, in place. */
export function fold(t: Task, c: Commit): void {
  const at = Date.parse(c.at)
  for (const e of c.events) if (!apply(t, at, e)) t.refused++
  t.rev = c.rev
}

/** apply folds one event. It returns false, and changes nothing, if the tables do not allow the event. */
export function apply(t: Task, at: number, e: Event): boolean {
  if (e.kind === 'task.submitted') return submit(t, at, e.data)
  if (t.state === '') return false
  const row = taskRows[e.kind]
  if (row) return move(t, at, e, row)
  const other = taskEffects[e.kind]
  if (other) return other(t, e.data)
  const step = stepRows[e.kind]
  return step ? moveStep(t, at, e, step) : true
}

function submit(t: Task, at: number, d: EventData): boolean {
  if (t.state !== '') return false
  Object.assign(t, { state: 'NEEDS_ACTION', since: at, plan: d['plan'], inputs: d['inputs'] })
  return true
}

const withOutput = new Set(['task.finished', 'task.finalized'])
const withError = new Set(['task.failed', 'task.rejected'])

function move(t: Task, at: number, e: Event, row: Row): boolean {
  if (!row.from.includes(t.state)) return false
  Object.assign(t, { state: row.to, since: at, reason: text(e.data['reason']), block: text(e.data['block']) })
  if (withOutput.has(e.kind)) t.output = e.data['output']
  if (withError.has(e.kind)) t.error = e.data['error'] as FaultView | undefined
  return true
}

type TaskEffect = (t: Task, d: EventData) => boolean
const accept = (change: (t: Task, d: EventData) => void): TaskEffect => (t, d) => (change(t, d), true)

/** close ends something that is open, or refuses. */
const close = (of: 'approvals' | 'questions', from: string, to: string): TaskEffect => (t, d) => {
  const id = text(d['id'])
  if (t[of].get(id) !== from) return false
  t[of].set(id, to)
  return true
}

const open = (of: 'approvals' | 'questions', status: string): TaskEffect => (t, d) => {
  const id = text(d['id'])
  if (t[of].has(id)) return false
  t[of].set(id, status)
  return true
}

/** taskEffects are the events beside the tables: what they change of the task. */
const taskEffects: Record<string, TaskEffect | undefined> = {
  'task.paused': accept((t) => { t.paused = true }),
  'task.resumed': accept((t) => { t.paused = false }),
  'task.cancel_requested': accept((t) => { t.cancelling = true }),
  'task.ending': accept((t, d) => { t.ending = true; t.error = d['error'] as FaultView | undefined }),
  'signal.received': accept((t, d) => { t.signals.push(text(d['name'])) }),
  'approval.requested': open('approvals', 'pending'),
  'approval.voted': close('approvals', 'pending', 'pending'),
  'approval.reminded': close('approvals', 'pending', 'pending'),
  'approval.granted': close('approvals', 'pending', 'granted'),
  'approval.rejected': close('approvals', 'pending', 'rejected'),
  'approval.expired': close('approvals', 'pending', 'expired'),
  'approval.revoked': close('approvals', 'granted', 'revoked'),
  'question.asked': open('questions', 'open'),
  'question.answered': close('questions', 'open', 'answered'),
  'question.expired': close('questions', 'open', 'expired'),
}

const resolved: Record<string, StepState | undefined> = { failed: 'failed', retry: 'pending' }

function moveStep(t: Task, at: number, e: Event, row: Row): boolean {
  const key = text(e.data['step'])
  const before = t.steps.get(key) ?? fresh(key)
  if (key === '' || !row.from.includes(before.state)) return false
  const to = (e.kind === 'step.resolved' && resolved[text(e.data['as'])]) || row.to
  const after: Step = { ...before, ...stepEffects[e.kind]?.(before, e.data), state: to as StepState, since: at }
  t.steps.set(key, after)
  if (e.kind === 'step.succeeded') consume(t, after.signal)
  return true
}

/** consume removes the signal that a step was waiting for. */
function consume(t: Task, name: string): void {
  const i = name === '' ? -1 : t.signals.indexOf(name)
  if (i >= 0) t.signals.splice(i, 1)
}

function fresh(key: string): Step {
  return {
    key, state: 'pending', since: 0, attempt: 0, failures: 0, repeats: 0, lost: 0, tool: '', effect: '', worker: '', reason: '', approval: '',
    signal: '', child: '', questions: [],
  }
}

const fault = (v: Json): FaultView | undefined => (v ?? undefined) as FaultView | undefined
const lostBy = (s: Step, d: EventData): number => s.lost + (d['class'] === 'worker_lost' ? 1 : 0)

/** stepEffects are the fields that an event changes of its step. */
const stepEffects: Record<string, ((s: Step, d: EventData) => Partial<Step>) | undefined> = {
  'step.ready': (_, d) => ({
    attempt: number(d['attempt']), tool: text(d['tool']), effect: text(d['effect']), args: d['args'], worker: '',
    approval: text(d['approval']), questions: [], child: '',
  }),
  'step.called': (s, d) => ({ worker: text(d['worker']), effect: text(d['effect']) || s.effect }),
  'step.succeeded': (_, d) => ({ output: d['output'], error: undefined }),
  'step.reused': (_, d) => ({ output: d['output'], error: undefined, reason: 'reused from ' + text(d['from']) }),
  'step.failed': (s, d) => ({
    output: d['output'], error: fault(d['error']), lost: lostBy(s, d), ...(d['tool'] ? { tool: text(d['tool']), args: d['args'] } : {}),
  }),
  'step.retrying': (s, d) => ({
    output: number(d['round']) ? s.output : d['output'], error: fault(d['error']), lost: lostBy(s, d), ...rounds(s, number(d['round']), d['counts'] === true),
  }),
  'step.skipped': (_, d) => ({ reason: text(d['reason']) }),
  'step.cancelled': (_, d) => ({ reason: text(d['reason']) }),
  'step.in_doubt': (s, d) => ({ reason: text(d['reason']), lost: s.lost + 1 }),
  'step.resolved': (_, d) => ({ reason: 'decided by ' + text(d['by']), ...outcome(d) }),
  'step.waiting': (_, d) => ({ signal: text(d['signal']) }),
  'step.spawned': (s, d) => ({ child: text(d['child']), args: d['agent'] ? s.args : d['inputs'] }),
  'step.parked': (_, d) => {
    const questions = texts(d['questions'])
    return questions.length ? { questions } : { questions, approval: text(d['approval']) }
  },
}

function rounds(s: Step, round: number, counts: boolean): Partial<Step> {
  const repeated = round > 0 ? { repeats: round, failures: 0 } : { repeats: s.repeats, failures: s.failures }
  return counts ? { ...repeated, failures: repeated.failures + 1 } : repeated
}

function outcome(d: EventData): Partial<Step> {
  switch (d['as']) {
    case 'failed': return { error: { name: 'IN_DOUBT', message: `the call did not happen, says ${text(d['by'])}` } }
    case 'retry': return {}
    default: return { output: d['output'] }
  }
}
