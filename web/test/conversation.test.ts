import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TurnView } from '../src/api.ts'
import { merge, unsettled } from '../src/conversation.ts'
import { dollars } from '../src/format.ts'

const turn = (n: number, state: TurnView['state'], text = ''): TurnView => ({ turn: n, state, asks: `a.t${n}.m`, text })

test('turns that come again replace older ones, and stay in order', () => {
  const all = merge([turn(3, 'answered'), turn(4, 'asking')], [turn(4, 'answered', 'new'), turn(5, 'asking')])
  assert.deepEqual(merge(all, [turn(1, 'answered'), turn(2, 'answered')]).map((t) => t.turn), [1, 2, 3, 4, 5])
  assert.equal(all[1]?.text, 'new')
})

test('what may still change is read again', () => {
  assert.equal(unsettled([]), 1)
  assert.equal(unsettled([turn(1, 'answered'), turn(2, 'acting')]), 2)
  assert.equal(unsettled([turn(1, 'answered'), turn(2, 'asking')]), 2)
  assert.equal(unsettled([turn(7, 'answered'), turn(8, 'failed')]), 9)
})

test('dollars have at least two decimals', () => {
  assert.deepEqual([0, 5e8, 1_234_500, 12e9, 1].map(dollars), ['$0.00', '$0.50', '$0.0012345', '$12.00', '$0.000000001'])
})
