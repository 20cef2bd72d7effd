import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Act, AuditReply } from '../src/api.ts'
import { auditList, filtersOf, newer, older, placeOf, queryOf, timeOf, wrongOf, wrongTime } from '../src/audit.ts'

const now = Date.parse('2026-11-29T12:00:00Z')
const filters = (query: string) => filtersOf(new URLSearchParams(query))
const act = (n: number, more: Partial<Act> = {}): Act => ({ n, at: '', actor: 'user:ada', face: 'bus', act: 'task.cancel', outcome: 'done', ...more })
/** page is a page of the API, the newest last. */
const page = (from: number, to: number, next = 0): AuditReply => ({ acts: Array.from({ length: to - from + 1 }, (_, i) => act(from + i)), next })
const numbers = (list: Act[]): number[] => list.map((a) => a.n)

test('times are ages, or moments in UTC', () => {
  const at = (text: string) => new Date(timeOf(text, now)).toISOString()
  assert.equal(at('24h'), '2026-11-28T12:00:00.000Z')
  assert.equal(at('3d'), '2026-11-26T12:00:00.000Z')
  assert.equal(at('2026-11-29'), '2026-11-29T00:00:00.000Z')
  assert.equal(at('2026-11-29 10:30'), '2026-11-29T10:30:00.000Z')
  assert.equal(at('2026-11-29T10:30:05+02:00'), '2026-11-29T08:30:05.000Z')
  for (const text of ['yesterday', '24', 'h', '-3d', '2026', '2026-13-01', '2026-11-29T', '1e9d', '24h ']) assert.ok(wrongTime(text), text)
  assert.ok(!wrongTime(''))
})

test('the request and the command select the same', () => {
  const f = filters('actor=user:ada&act=token.*&outcome=refused&since=24h&until=2026-11-29')
  assert.deepEqual(queryOf(f, now), { actor: 'user:ada', act: 'token.*', target: '', outcome: 'refused', since: '2026-11-28T12:00:00.000Z', until: '2026-11-29T00:00:00.000Z' })
  assert.equal(auditList(f), "orch audit list --actor user:ada --act 'token.*' --since 24h --until 2026-11-29T00:00:00.000Z --refused")
  assert.equal(auditList(filters('outcome=failed&target=a b')), "orch audit list --target 'a b' --outcome failed")
  assert.equal(queryOf(filters('since=never'), now)['since'], undefined)
})

test('filters that do not exist are named', () => {
  const wrong = (query: string) => wrongOf(new URLSearchParams(query)).map((w) => `${w.param} ${w.value}`)
  assert.deepEqual(wrong('since=yesterday&until=2026-13-45&outcome=foo'), ['outcome foo', 'since yesterday', 'until 2026-13-45'])
  assert.deepEqual(wrong('since=24h&until=2026-11-29&outcome=done&actor=nobody'), [])
})

test('pages join without a gap and without a repetition', () => {
  const first = newer({ list: [], next: 0 }, page(5, 7, 5))
  assert.deepEqual([numbers(first.list), first.next], [[7, 6, 5], 5])
  const second = older(first, page(2, 4, 2))
  assert.deepEqual([numbers(second.list), second.next], [[7, 6, 5, 4, 3, 2], 2])
  const again = newer(second, page(6, 8, 6))
  assert.deepEqual([numbers(again.list), again.next], [[8, 7, 6, 5, 4, 3, 2], 2])
  const gap = newer(again, page(20, 22, 20))
  assert.deepEqual([numbers(gap.list), gap.next], [[22, 21, 20], 20], 'what lies between is read again')
  assert.deepEqual(numbers(newer(again, page(7, 9)).list), [9, 8, 7], 'there is nothing older any more')
  assert.deepEqual(numbers(older(second, page(1, 2)).list), [7, 6, 5, 4, 3, 2, 1])
})

test('a result that came later replaces an act without one', () => {
  const have = newer({ list: [], next: 0 }, { acts: [act(1, { outcome: 'unknown' })] })
  assert.equal(newer(have, { acts: [act(1)] }).list[0]?.outcome, 'done')
})

test('an act leads to what it is about', () => {
  assert.deepEqual(placeOf(act(1, { target: 'TASK_1', task: { id: 'TASK_1', rev: 7 } })), ['/tasks/TASK_1', { rev: '7' }])
  assert.deepEqual(placeOf(act(1, { target: 'TASK_1' })), ['/tasks/TASK_1', {}])
  assert.deepEqual(placeOf(act(1, { act: 'hook.rotate', target: 'a/b' })), ['/webhooks/hook/a%2Fb', {}])
  assert.deepEqual(placeOf(act(1, { act: 'approval.grant', target: 'APR_1' })), ['/inbox/APR_1', {}])
  for (const none of [act(1, { act: 'hook.delete', target: 'deploy' }), act(1, { act: 'token.create', target: 'tok_1' }), act(1, { act: 'hook.put' })]) assert.equal(placeOf(none), undefined)
})
