import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kindOf } from '../src/history.ts'

test('a file that a task has written is not called read', () => {
  assert.equal(kindOf({ kind: 'file.read', data: {} }), 'file.known')
  assert.equal(kindOf({ kind: 'file.changed', data: {} }), 'file.changed')
})
