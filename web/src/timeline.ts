// Turns events into the bars of the timeline: what each step was doing, and from when to when.
import type { Commit, Event } from './api.ts'
import { number, text, texts } from './json.ts'

export type Activity = 'queued' | 'running' | 'backoff' | 'approval' | 'question' | 'waiting' | 'child' | 'doubt'
/** Outcome is how something ended; '' for what only gave way to the next. A repeated call has succeeded, but its condition does not hold yet. */
export type Outcome = 'succeeded' | 'failed' | 'repeated' | 'cancelled' | 'skipped' | 'parked' | 'lost' | ''

/** Bar is one activity of a step. Its end is Infinity while it lasts; from rev on it is on screen, at endRev it ended. */
export interface Bar {
  step: string
  activity: Activity
  from: number
  to: number
  rev: number
  endRev: number
  attempt: number
  outcome: Outcome
  /** took is how long the call ran, as its worker measured it, in milliseconds; 0 while that is unknown. */
  took: number
}

export const activities: Record<Activity, string> = {
  queued: 'Queued', running: 'Running', backoff: 'Backoff', approval: 'Waits for approval', question: 'Waits for an answer',
  waiting: 'Timer or signal', child: 'Child task', doubt: 'In doubt',
}

/** ends says how an attempt ended. */
const ends: Record<Outcome, string> = {
  succeeded: 'Succeeded', failed: 'Failed', repeated: 'Succeeded, and repeats', cancelled: 'Cancelled', skipped: 'Skipped', parked: 'Parked', lost: 'Lost', '': 'Ended',
}

/** look returns what a bar shows: an attempt that is over shows its end, anything else what it is. */
export function look(b: Bar): { class: string; words: string } {
  if (b.activity !== 'running' || b.to === Infinity) return { class: b.activity, words: activities[b.activity] }
  return { class: `running ${b.outcome || 'over'}`, words: ends[b.outcome] }
}

/** length returns how long a bar lasted, or has lasted until a time. */
export const length = (b: Bar, until: number): number => b.took || Math.max(0, Math.min(b.to, until) - b.from)

/** took returns how long the newest attempt of a step ran, without its time in the queue; undefined for a step that has called nothing. */
export function took(bars: Bar[], until: number): number | undefined {
  const last = bars.findLast((b) => b.took > 0 || (b.activity === 'running' && (b.to === Infinity || b.to > b.from)))
  return last && length(last, until)
}

/** Rule says what an event begins, and how it ends what was under way. */
interface Rule { begins?: Activity | ((e: Event) => Activity); outcome?: Outcome | ((e: Event) => Outcome); at?: string }

const rules: Record<string, Rule | undefined> = {
  'step.ready': { begins: 'queued' },
  'step.called': { begins: 'running', at: 'at' },
  'step.parked': { outcome: 'parked', begins: (e) => (texts(e.data['questions']).length ? 'question' : 'approval') },
  'step.waiting': { begins: 'waiting' },
  'step.spawned': { begins: 'child' },
  'step.expanded': { begins: 'child' },
  'step.divided': { begins: 'child' },
  'agent.started': { begins: 'child' },
  'step.retrying': { begins: 'backoff', outcome: (e) => (number(e.data['round']) ? 'repeated' : 'failed') },
  'step.in_doubt': { begins: 'doubt', outcome: 'lost' },
  'step.noted': {},
  'step.succeeded': { outcome: 'succeeded' },
  'step.reused': { outcome: 'succeeded' },
  'step.failed': { outcome: 'failed' },
  'step.resolved': { outcome: 'succeeded' },
  'step.cancelled': { outcome: 'cancelled' },
  'step.skipped': { outcome: 'skipped' },
}

/** Timeline collects the bars of a history, by step. It only ever grows. */
export class Timeline {
  readonly steps = new Map<string, Bar[]>()
  from = Infinity
  to = -Infinity

  add(c: Commit): void {
    const at = Date.parse(c.at)
    this.from = Math.min(this.from, at)
    this.to = Math.max(this.to, at)
    for (const e of c.events) this.event(c.rev, at, e)
  }

  private event(rev: number, at: number, e: Event): void {
    const rule = rules[e.kind]
    const step = text(e.data['step'])
    if (!rule || !step) return
    const time = rule.at ? Date.parse(text(e.data[rule.at])) || at : at
    const bars = this.barsOf(step)
    const last = bars.at(-1)
    const end = { endRev: rev, outcome: of(rule.outcome, e) ?? '', took: number(e.data['duration']) / 1e6 }
    if (last && last.to === Infinity) {
      Object.assign(last, end, { to: Math.max(last.from, time) })
      measured(last, bars.at(-2))
    }
    const begins = of(rule.begins, e)
    if (begins) bars.push(bar(step, begins, time, rev, number(e.data['attempt']) || (last?.attempt ?? 0)))
    else if (!last) bars.push({ ...bar(step, 'running', time, rev, 0), ...end, to: time })
  }

  private barsOf(step: string): Bar[] {
    const known = this.steps.get(step)
    if (known) return known
    const bars: Bar[] = []
    this.steps.set(step, bars)
    return bars
  }
}

/**
 * measured puts the bar of a call that has ended where its worker measured it. Of a call that only reads, the node hears with a
 * heartbeat or at its end, so step.called can be late; and its end waits for the next commit.
 */
function measured(b: Bar, before: Bar | undefined): void {
  if (b.activity !== 'running' || b.took === 0) return
  if (before?.activity === 'queued') {
    b.from = Math.max(before.from, Math.min(b.from, b.to - b.took))
    before.to = Math.min(before.to, b.from)
  }
  b.to = Math.min(b.to, b.from + b.took)
}

const of = <T>(rule: T | ((e: Event) => T), e: Event): T => (typeof rule === 'function' ? (rule as (e: Event) => T)(e) : rule)

function bar(step: string, activity: Activity, from: number, rev: number, attempt: number): Bar {
  return { step, activity, from, to: Infinity, rev, endRev: Infinity, attempt, outcome: '', took: 0 }
}

/** barsAt returns the bars of a step as they were at a revision. */
export const barsAt = (bars: Bar[], rev: number): Bar[] =>
  bars.filter((b) => b.rev <= rev).map((b) => (b.endRev <= rev ? b : { ...b, to: Infinity, outcome: '', took: 0 }))

/** Gap is idle time that the scale draws short. */
export interface Gap { from: number; to: number }

/** Scale maps times to the range from 0 to 1. Gaps take a small fixed part each, one that lasts until the end a larger one. */
export interface Scale { gaps: Gap[]; place: (time: number) => number }

const idleAtLeast = 2000
const gapShare = 0.06
/** lastShare is the share of a wait that goes on, lonelyShare that of one of a task which has hardly done anything else, mostShare that of all gaps. */
const [lastShare, lonelyShare, mostShare] = [0.25, 0.6, 0.72]
const mostGaps = 12

/** scale returns a linear scale, with idle time collapsed if that is asked for. */
export function scale(from: number, to: number, busy: Gap[]): Scale {
  const gaps = idle(from, to, busy)
  const skipped = gaps.reduce((sum, g) => sum + g.to - g.from, 0)
  const worked = Math.max(0, to - from - skipped)
  const shares = gaps.map((g) => (g.to < to ? gapShare : worked < idleAtLeast ? lonelyShare : lastShare))
  const wanted = shares.reduce((sum, s) => sum + s, 0)
  const total = worked > 0 ? worked / (1 - Math.min(wanted, mostShare)) : 1
  const lengths = shares.map((s) => (wanted > 0 ? ((total - worked) * s) / wanted : 0))
  return { gaps, place: (time) => Math.min(1, Math.max(0, drawn(time, from, gaps, lengths) / total)) }
}

/** drawn returns how much of the axis lies before a time. */
function drawn(time: number, from: number, gaps: Gap[], lengths: number[]): number {
  let length = time - from
  gaps.forEach((g, i) => {
    if (time <= g.from) return
    const part = (Math.min(time, g.to) - g.from) / (g.to - g.from)
    length += part * ((lengths[i] ?? 0) - (g.to - g.from))
  })
  return length
}

/** idle returns the longest times in which nothing ran. They are in order. */
function idle(from: number, to: number, busy: Gap[]): Gap[] {
  const gaps: Gap[] = []
  let end = from
  for (const b of [...busy].sort((a, b) => a.from - b.from)) {
    if (b.from > end) gaps.push({ from: end, to: b.from })
    end = Math.max(end, b.to)
  }
  if (to > end) gaps.push({ from: end, to })
  const least = Math.max(idleAtLeast, (to - from) / 20)
  const long = gaps.filter((g) => g.to - g.from > least).sort((a, b) => b.to - b.from + a.from - a.to)
  return long.slice(0, mostGaps).sort((a, b) => a.from - b.from)
}

/** busyTimes returns when calls ran or waited in a queue. Waits for people and timers are idle time. */
export function busyTimes(steps: Iterable<Bar[]>, now: number): Gap[] {
  const busy: Gap[] = []
  for (const bars of steps) {
    for (const b of bars) {
      if (b.activity === 'running' || b.activity === 'queued') busy.push({ from: b.from, to: Math.min(b.to, now) })
    }
  }
  return busy
}
