import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beginning, storedOf } from '../src/values.ts'

test('a reference stands for a value, anything else is the value', () => {
  assert.deepEqual(storedOf({ $blob: 'sha256-1', size: 70_000 }), { ref: 'sha256-1', size: 70_000 })
  assert.deepEqual(storedOf({ $omitted: 'the answer would be too large', $blob: 'sha256-1', size: 3 }), { ref: 'sha256-1', size: 3 })
  assert.equal(storedOf({ $blob: 'sha256-1', size: 3, error: { name: 'NOT_FOUND' } }), undefined)
  for (const value of [undefined, null, 'sha256-1', ['$blob'], { blob: 'sha256-1' }]) assert.equal(storedOf(value), undefined)
})

test('what has come of a value is shown as far as it goes', () => {
  const whole = '{"exit_code":1,"stdout":"a\\nb\\u00fc\\"","list":[{"x":[1,2]},true,null]}'
  assert.deepEqual(beginning(whole), JSON.parse(whole))
  assert.deepEqual(beginning('{"exit_code":1,"stdout":"a\\nb\\u00f'), { exit_code: 1, stdout: 'a\nb' })
  assert.deepEqual(beginning('{"exit_code":1,"stdout":"a\\nb\\'), { exit_code: 1, stdout: 'a\nb' })
  assert.deepEqual(beginning('{"exit_code":1,"std'), { exit_code: 1 })
  assert.deepEqual(beginning('{"exit_code":1,"stdout":'), { exit_code: 1 })
  assert.deepEqual(beginning('[[1,2],[3,tr'), [[1, 2], [3]])
  assert.deepEqual(beginning('[{"a":"b'), [{ a: 'b' }])
  assert.equal(beginning('"text'), 'text')
  assert.equal(beginning('no JSON'), undefined)
})

test('the beginning of a value with every cut is a value', () => {
  const whole = '{"a":[{"b":"c\\\\d, {["},-1.5e3],"e":{"f":[]},"g":"\\u20ac"}'
  for (let i = 1; i <= whole.length; i++) assert.notEqual(beginning(whole.slice(0, i)), undefined, whole.slice(0, i))
})
