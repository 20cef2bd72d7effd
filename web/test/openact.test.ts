// What became of an act on many to which the node had not answered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compared, happened } from '../src/openact.ts'

test('a node that was restarted is compared with what was asked of it', () => {
  assert.equal(compared(3, 3), 'The node has done nothing of it. Do it again if it is still wanted.')
  assert.equal(compared(3, 0), 'All 3 entries have changed since, and say how.')
  assert.equal(compared(1, 0), 'The entry has changed since, and says how.')
  assert.equal(compared(3, 1), '2 of 3 entries have changed since, and say how; 1 is as it was.')
  assert.equal(compared(3, 2), '1 of 3 entries has changed since, and says how; 2 are as they were.')
})

test('what has happened is counted', () => {
  const done = { text: 'granted', failed: false }
  assert.equal(happened(new Map([['a', done], ['b', done]])), 'This has happened: 2 done.')
  assert.equal(happened(new Map([['a', done], ['b', { text: 'CONFLICT', failed: true }]])), 'This has happened: 1 done, 1 refused.')
})
