import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forkLines, typedLike } from '../src/forks.ts'

test('a fork is described in the words of orch fork', () => {
  const effect = { step: 'mail', tool: 'NOTIFICATION_SEND', effect: 'write' }
  const lines = forkLines({ at: 14, reused: ['collect', 'publish'], live: ['report'], stands_on: [{ step: 'sub', child: 'TASK_1' }], repeats: [effect] })
  assert.deepEqual(lines.map((l) => [l.what, l.names]), [
    ['reuses', ['collect', 'publish']], ['runs live', ['report']], ['stands on', ['sub (task TASK_1)']], ['repeats', ['mail (NOTIFICATION_SEND, write)']],
  ])
  assert.deepEqual(forkLines({ at: 1, reused: null, live: [], stands_on: [], repeats: null }), [])
})

test('what is typed for an input keeps the type of the input', () => {
  assert.equal(typedLike('1.4', '2'), '2')
  assert.equal(typedLike(1, '2'), 2)
  assert.equal(typedLike(undefined, 'plain'), 'plain')
  assert.deepEqual(typedLike([1], '[1, 2]'), [1, 2])
})
