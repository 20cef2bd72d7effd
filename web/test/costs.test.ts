import assert from 'node:assert/strict'
import { test } from 'node:test'
import { amount, byOf, choiceOf, firstDay, part, wrongOf } from '../src/costs.ts'
import { hour, hourly } from '../src/rates.ts'

test('what is chosen is in the address', () => {
  const choice = (q: string) => choiceOf(new URLSearchParams(q))
  assert.deepEqual(choice(''), { by: 'day', label: '', since: '7d' })
  assert.deepEqual(choice('by=nothing&since=1y'), { by: 'day', label: '', since: '7d' })
  assert.deepEqual(wrongOf(new URLSearchParams('by=nothing&since=1y')).map((w) => w.param), ['by', 'since'])
  assert.deepEqual(wrongOf(new URLSearchParams('by=label&label=team&since=30d')), [])
  assert.equal(byOf(choice('by=label&label=team')), 'label:team')
  assert.equal(byOf(choice('by=label')), '', 'nothing is asked without a key')
})

test('a period begins with a day', () => {
  const now = Date.parse('2026-11-29T13:00:00Z')
  assert.equal(firstDay('7d', now), '2026-11-22T00:00:00.000Z')
  assert.equal(firstDay('24h', now), '2026-11-28T00:00:00.000Z')
})

test('budgets say how full they are', () => {
  const of = (limit: object, spent: object) => part({ name: 'b', limit, spent, until: '' })
  assert.equal(of({ nano_usd: 10 }, { nano_usd: 4, tokens: 900 }), 0.4)
  assert.equal(of({ nano_usd: 10, tokens: 1000 }, { nano_usd: 4, tokens: 900 }), 0.9)
  assert.equal(of({ tokens: 10 }, { tokens: 40 }), 1)
  assert.equal(amount({ nano_usd: 2e9, tokens: 1200 }), '$2.00, 1\u2009200 tokens')
  assert.equal(amount(undefined), '$0.00')
})

test('failures are counted by hour', () => {
  const now = Date.parse('2026-11-29T13:20:00Z')
  const counts = hourly([now, now - 20 * 60_000, now - hour, now - 24 * hour, now + hour], now)
  assert.equal(counts.length, 24)
  assert.deepEqual(counts.slice(-2), [1, 2])
  assert.equal(counts.reduce((a, b) => a + b), 3)
})
