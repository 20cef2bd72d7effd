import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Commit } from '../src/api.ts'
import { Timeline, barsAt, busyTimes, look, scale, took } from '../src/timeline.ts'

const t0 = Date.parse('2026-11-26T12:00:00Z')

/** commits makes one commit of each event, at seconds since t0. */
function commits(...events: [number, string, Record<string, unknown>?][]): Commit[] {
  return events.map(([at, kind, data = {}], i) => ({ seq: i + 1, rev: i + 1, at: new Date(t0 + at * 1000).toISOString(), hash: '', events: [{ kind, data: { step: 'a', ...data } }] }))
}

function timeline(list: Commit[]): Timeline {
  const t = new Timeline()
  for (const c of list) t.add(c)
  return t
}

const bars = (t: Timeline) => (t.steps.get('a') ?? []).map((b) => [b.activity, (b.from - t0) / 1000, (b.to - t0) / 1000, b.outcome])

test('queue, attempts, backoff and approval are bars of their own', () => {
  const t = timeline(commits(
    [0, 'step.ready', { attempt: 1 }], [1, 'step.called', { attempt: 1 }], [3, 'step.retrying'], [5, 'step.ready', { attempt: 2 }], [6, 'step.parked', { approval: 'A' }],
    [60, 'step.ready', { attempt: 2 }], [61, 'step.called', { attempt: 2 }], [63, 'step.succeeded'],
  ))
  assert.deepEqual(bars(t), [
    ['queued', 0, 1, ''], ['running', 1, 3, 'failed'], ['backoff', 3, 5, ''], ['queued', 5, 6, 'parked'], ['approval', 6, 60, ''], ['queued', 60, 61, ''], ['running', 61, 63, 'succeeded'],
  ])
})

test('an attempt that is over is one bar with its end', () => {
  const t = timeline(commits(
    [0, 'step.ready'], [1, 'step.called'], [3, 'step.retrying', { error: {} }], [4, 'step.ready'], [5, 'step.called'], [6, 'step.retrying', { round: 1 }],
    [7, 'step.ready'], [8, 'step.called'], [9, 'step.in_doubt'],
  ))
  const attempts = (t.steps.get('a') ?? []).filter((b) => b.activity === 'running')
  assert.deepEqual(attempts.map((b) => look(b).words), ['Failed', 'Succeeded, and repeats', 'Lost'])
  assert.deepEqual(barsAt(t.steps.get('a') ?? [], 2).map((b) => look(b).words), ['Queued', 'Running'])
})

test('the time of a step is that of its newest attempt, as its worker measured it', () => {
  const t = timeline(commits([0, 'step.ready'], [3, 'step.called'], [5, 'step.retrying', { duration: 1.5e9 }], [6, 'step.ready'], [8, 'step.called'], [9, 'step.succeeded', { duration: 0.75e9 }]))
  const all = t.steps.get('a') ?? []
  assert.equal(took(all, Infinity), 750)
  assert.equal(took(barsAt(all, 3), t0 + 5000), 1500)
  assert.equal(took(barsAt(all, 5), t0 + 8400), 400)
  assert.equal(took(timeline(commits([4, 'step.succeeded'])).steps.get('a') ?? [], Infinity), undefined)
})

test('questions, timers and doubts', () => {
  const t = timeline(commits([0, 'step.ready'], [1, 'step.called'], [2, 'step.parked', { questions: ['Q'] }], [9, 'step.ready'], [10, 'step.called'], [12, 'step.in_doubt'], [20, 'step.resolved', { as: 'failed' }]))
  assert.deepEqual(bars(t).map((b) => b[0]), ['queued', 'running', 'question', 'queued', 'running', 'doubt'])
})

test('a step that ends at once is still there', () => {
  assert.deepEqual(bars(timeline(commits([4, 'step.succeeded']))), [['running', 4, 4, 'succeeded']])
})

test('at an earlier revision a bar is still open', () => {
  const t = timeline(commits([0, 'step.ready'], [1, 'step.called'], [5, 'step.succeeded']))
  assert.deepEqual(barsAt(t.steps.get('a') ?? [], 2).map((b) => [b.activity, b.to, b.outcome]), [['queued', t0 + 1000, ''], ['running', Infinity, '']])
})

test('idle time is drawn short, and the order of times stays', () => {
  const t = timeline(commits([0, 'step.ready'], [1, 'step.called'], [10, 'step.parked', { approval: 'A' }], [3610, 'step.ready'], [3611, 'step.called'], [3620, 'step.succeeded']))
  const s = scale(t.from, t.to, busyTimes(t.steps.values(), t.to))
  assert.equal(s.gaps.length, 1)
  const places = [0, 5, 10, 1000, 3610, 3615, 3620].map((at) => s.place(t0 + at * 1000))
  assert.deepEqual(places, [...places].sort((a, b) => a - b))
  assert.equal(places[0], 0)
  assert.equal(places[6], 1)
  assert.ok((places[4] ?? 1) - (places[2] ?? 0) < 0.1)
})

test('a wait that goes on is no stub, and the axis reaches its end', () => {
  const worked = timeline(commits([0, 'step.ready'], [1, 'step.called'], [10, 'step.parked', { approval: 'A' }]))
  const late = t0 + 3610_000
  const s = scale(worked.from, late, busyTimes(worked.steps.values(), late))
  assert.deepEqual([0, 10, 1810, 3610].map((at) => Number(s.place(t0 + at * 1000).toFixed(3))), [0, 0.75, 0.875, 1])

  const idle = timeline(commits([0, 'step.ready'], [0, 'step.parked', { approval: 'A' }]))
  const alone = scale(idle.from, late, busyTimes(idle.steps.values(), late))
  assert.deepEqual([0, 1805, 3610].map((at) => alone.place(t0 + at * 1000)), [0, 0.5, 1])
})

test('a call is drawn where its worker measured it, whenever the node heard of its start', () => {
  const ns = (seconds: number) => seconds * 1e9
  const late = timeline(commits([0, 'step.ready'], [4, 'step.called'], [21, 'step.failed', { duration: ns(20.75) }]))
  assert.deepEqual(bars(late), [['queued', 0, 0.25, ''], ['running', 0.25, 21, 'failed']], 'step.called came with a heartbeat')
  const longer = timeline(commits([0, 'step.ready'], [4, 'step.called'], [21, 'step.failed', { duration: ns(30) }]))
  assert.deepEqual(bars(longer), [['queued', 0, 0, ''], ['running', 0, 21, 'failed']], 'never before it was ready')
  const short = timeline(commits([0, 'step.ready'], [1, 'step.called'], [3, 'step.succeeded', { duration: ns(0.5) }]))
  assert.deepEqual(bars(short), [['queued', 0, 1, ''], ['running', 1, 1.5, 'succeeded']], 'its end was recorded later')
  const continued = timeline(commits([0, 'step.waiting'], [1, 'step.called'], [3, 'step.succeeded', { duration: ns(2.5) }]))
  assert.deepEqual(bars(continued), [['waiting', 0, 1, ''], ['running', 1, 3, 'succeeded']], 'a wait is not cut')
})
