import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wrongPlace } from '../src/refused.ts'

test('a revision or a step that a task does not have is named', () => {
  const wrong = (query: string, steps?: string[]) => wrongPlace(new URLSearchParams(query), 12, steps && new Set(steps)).map((w) => `${w.param} ${w.value}`)
  assert.deepEqual(wrong('rev=999&step=zzz', ['a']), ['rev 999', 'step zzz'])
  for (const rev of ['-1', '0', '1.5', 'foo', '13']) assert.deepEqual(wrong(`rev=${rev}`), [`rev ${rev}`])
  for (const good of ['', 'rev=12', 'rev=1&step=a']) assert.deepEqual(wrong(good, ['a']), [])
  assert.deepEqual(wrong('step=zzz'), [], 'the steps are not known yet')
})
