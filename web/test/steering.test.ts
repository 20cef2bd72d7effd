// What became of an act on one task to which the node had not answered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { truth, type Standing } from '../src/steering.ts'

const asked = (verb: string) => `The node had not answered to your request to ${verb}.`
const now: Standing = { rev: 7, state: 'BLOCKED', paused: false, next: '' }

test('a task that is as it was has not got the act', () => {
  assert.equal(truth({ verb: 'resume', rev: 7, reason: '' }, now), `${asked('resume')} It did not take it: the task is as it was. Do it again if it is still wanted.`)
})

test('a task that has changed says how it stands', () => {
  assert.equal(truth({ verb: 'resolve step a', rev: 7, reason: '' }, { ...now, rev: 9, state: 'IN_PROGRESS' }), `${asked('resolve step a')} The task has changed since: when the node answered again, it was in progress.`)
  assert.match(truth({ verb: 'pause', rev: 7, reason: '' }, { ...now, rev: 9, paused: true }), /it was blocked and paused\.$/)
  assert.match(truth({ verb: 'cancel', rev: 0, reason: '' }, now), /has changed since/, 'it was not known how it stood')
})

test('what is redriven or retried stays as it is: what continues it tells', () => {
  const next = 'The newest retry of it is DONE: TASK_2.'
  for (const verb of ['redrive', 'retry', 'retry from build']) assert.equal(truth({ verb, rev: 7, reason: '' }, { ...now, state: 'FAILED', next }), `${asked(verb)} ${next}`)
  assert.match(truth({ verb: 'redrive', rev: 7, reason: '' }, { ...now, state: 'FAILED' }), /did not take it/)
  assert.match(truth({ verb: 'resolve step a', rev: 7, reason: '' }, { ...now, next }), /did not take it/)
})
