import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commands } from '../src/commands.ts'
import { ago, command, count, duration, matches, rest, words } from '../src/format.ts'
import { nodes, place } from '../src/graph.ts'
import { Exact, parse, pretty } from '../src/json.ts'
import { codePoint, pieces } from '../src/unseen.ts'

const hidden = (text: string): boolean => pieces(text).some((p) => p.hidden)

test('visible text is left as it is', () => {
  const visible = [
    '', 'plain\n\ttext~', 'naïve', 'nai\u0308ve', '❤\ufe0f\u200d🔥', '1\ufe0f\u20e3', '👩🏽\u200d🚀', '‼\ufe0f', 'क\u094d\u200dष', '字', '\u00a0',
    ('a' + '\u0301'.repeat(8)).repeat(3), '\ufffd',
  ]
  for (const text of visible) assert.ok(!hidden(text), JSON.stringify(text))
})

test('what people do not see is named', () => {
  const unseen = [
    '\x00', '\x1b[1m', '\x7f', '\u0085', '\u200b', '\u200c', '\u202e', '\u2066', '\u2028', '\u2029', '\ufeff', '\u00ad', '\ue000', '\u{e0041}', '\u{e0002}',
    '\u{e0100}', '\ufe00', '\u034f', '\u115f', '\u1160', '\u3164', '\uffa0', '\u17b4', '\u2800', '\ufff0', '\ufffe', '\u200d', 'a\u200db', '字\u200d',
    '🔥\u200d\u200d🔥', '\ufe0f', 'ok\ufe0f', '❤\ufe0f\ufe0f', '🔥\u200d\ufe0f', 'a' + '\u0301'.repeat(9), '\ud800',
  ]
  for (const text of unseen) assert.ok(hidden(text) && hidden('🔥 then ' + text), JSON.stringify(text))
  assert.equal(codePoint('\u202e'), 'U+202E')
  assert.deepEqual(pieces('a\u200bb').map((p) => p.text), ['a', '\u200b', 'b'])
})

test('durations and ages', () => {
  assert.deepEqual([-5, 40_900, 53 * 60_000 + 59_000, 119 * 60_000, 52 * 3_600_000].map(rest), ['0s', '40s', '53m', '1h59m', '2d04h'])
  const durations: [number, string][] = [[0, '0ms'], [340.9, '340ms'], [3249, '3.2s'], [59_990, '59.9s'], [245_000, '4m05s'], [11_220_000, '3h07m'], [187_200_000, '2d04h'], [NaN, '–']]
  for (const [ms, text] of durations) assert.equal(duration(ms), text)
  const ages: [number, string][] = [[1000, 'now'], [12_000, '12s'], [240_000, '4m'], [-240_000, 'in 4m'], [26 * 3600_000, '1d']]
  for (const [ms, text] of ages) assert.equal(ago(1e12 - ms, 1e12), text)
  assert.equal(count(1234567), '1\u2009234\u2009567')
  assert.equal(words('IN_PROGRESS'), 'In progress')
})

test('a command is read back by a shell as the same words', () => {
  assert.equal(command('orch', 'approve', "it's"), `orch approve 'it'\\''s'`)
  assert.equal(commands.approve('APR_1', '', { n: 1, who: 'a b' }, [], []), `orch approve APR_1 n=1 'who=a b'`)
  assert.equal(commands.approve('APR_1', 'ok', { list: [1] }, ['x'], []), `orch approve APR_1 --form '{"list":[1]}' --reason ok --for-session x`)
  assert.equal(commands.fork('TASK_1', '8', [['a', 'x'], ['n', 5]], '', true), `orch fork TASK_1 --at 8 --set a=x --set n:=5 --repeat all`)
  assert.equal(commands.accept('ASK_1', { list: [1] }), `orch answer ASK_1 --json '{"action":"accept","content":{"list":[1]}}'`)
})

test('a glob matches as that of the node', () => {
  for (const [glob, name, want] of [
    ['nightly-*', 'nightly-1', true], ['nightly-*', 'a nightly-1', false], ['a.c', 'abc', false], ['a?c', 'abc', true], ['*', '', true], ['', '', true], ['', 'a', false],
    ['*b*b', 'abab', true], ['*b*c', 'abab', false], ['a*', 'a/b', false], ['a/*', 'a/b', true], ['?', '/', false], ['a[b-d]e', 'ace', true], ['a[^b-d]e', 'ace', false],
    ['[ab]*', 'bcd', true], ['[\\]]', ']', true], ['a\\*', 'a*', true], ['a\\*', 'ab', false], ['**a', 'ba', true], ['ab', 'a', false],
  ] as const) assert.equal(matches(glob, name), want, `${glob} ${name}`)
  assert.equal(matches(`${'*a'.repeat(40)}*b`, 'a'.repeat(256)), false, 'a hostile glob takes milliseconds, not years')
})

test('numbers keep their digits', () => {
  const read = parse<{ n: unknown; f: number }>('{"n":12345678901234567890,"f":0.1}')
  assert.equal(read.f, 0.1)
  if (read.n instanceof Exact) assert.equal(pretty(read), '{\n  "n": 12345678901234567890,\n  "f": 0.1\n}')
})

test('a graph places every step right of what it needs', () => {
  const plan = { steps: [{ id: 'c', set: { x: '${{ steps.b.output }}' } }, { id: 'a', tool: 'T' }, { id: 'b', needs: ['a'], tool: 'T' }] }
  const columns = Object.fromEntries(place(nodes(plan)).map((n) => [n.id, n.column]))
  assert.deepEqual(columns, { a: 0, b: 1, c: 2 })
})
