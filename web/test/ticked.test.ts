import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ticked } from '../src/ticked.ts'

const rows = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id }))

test('a range is ticked in both directions, and unticked', () => {
  const chosen = (...ids: string[]) => new Set(ids)
  assert.deepEqual(ticked(chosen(), rows, 'b'), chosen('b'))
  assert.deepEqual(ticked(chosen('b'), rows, 'b'), chosen())
  assert.deepEqual(ticked(chosen('b'), rows, 'd', 'b'), chosen('b', 'c', 'd'))
  assert.deepEqual(ticked(chosen('d'), rows, 'b', 'd'), chosen('d', 'b', 'c'))
  assert.deepEqual(ticked(chosen('b', 'c', 'd', 'e'), rows, 'd', 'c'), chosen('b', 'e'))
  assert.deepEqual(ticked(chosen(), rows, 'd', 'gone'), chosen('d'))
})
