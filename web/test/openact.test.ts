// What became of an act on many to which the node had not answered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Outcome } from '../src/bulk.ts'
import { compared, happened } from '../src/openact.ts'

test('a node that was restarted is compared with what was asked of it', () => {
  assert.equal(compared(3, 3), 'The node has done nothing of it. Do it again if it is still wanted.')
  assert.equal(compared(3, 0), 'All 3 entries have changed since, and say how.')
  assert.equal(compared(1, 0), 'The entry has changed since, and says how.')
  assert.equal(compared(3, 1), '2 of 3 entries have changed since, and say how; 1 is as it was.')
  assert.equal(compared(3, 2), '1 of 3 entries has changed since, and says how; 2 are as they were.')
  assert.equal(compared(8, 0, 'user:ada has granted it'), 'All 8 entries have changed since, each in the same way: user:ada has granted it.')
  assert.equal(compared(1, 0, 'user:ada has granted it'), 'The entry has changed since: user:ada has granted it.')
  assert.equal(compared(8, 2, 'it is cancelled now'), '6 of 8 entries have changed since, each in the same way: it is cancelled now; 2 are as they were.')
  assert.equal(compared(3, 2, 'it is cancelled now'), '1 of 3 entries has changed since: it is cancelled now; 2 are as they were.')
})

test('what has happened is counted', () => {
  const done = { text: 'granted', failed: false }
  assert.equal(happened(new Map([['a', done], ['b', done]])), 'This has happened: 2 done.')
  assert.equal(happened(new Map([['a', done], ['b', { text: 'CONFLICT', failed: true }]])), 'This has happened: 1 done, 1 refused.')
  assert.equal(happened(new Map<string, Outcome>([['a', { text: 'no answer', failed: true, unknown: true }]])), 'This has happened: 0 done, of 1 it is not known.')
  assert.equal(happened(new Map<string, Outcome>([['a', { text: 'no answer', failed: true, unknown: true }], ['b', { text: 'CONFLICT', failed: true }], ['c', done]])), 'This has happened: 1 done, 1 refused, of 1 it is not known.')
})
