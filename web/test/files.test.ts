import assert from 'node:assert/strict'
import { test } from 'node:test'
import { absenceOf, bytes, fileAddress, nameOf, opensFor, textOf, whyShut } from '../src/files.ts'

const part = { task: 'T', path: 'a', size: 3, modified: '', offset: 0 }

test('sizes are short', () => {
  for (const [n, want] of [[0, '0 B'], [1023, '1023 B'], [1024, '1.0 KiB'], [1536, '1.5 KiB'], [10 * 1024, '10 KiB'], [5 << 20, '5.0 MiB'], [2 ** 63, '8.0 EiB']] as const) assert.equal(bytes(n), want)
})

test('the address of a file keeps hostile names whole', () => {
  assert.equal(fileAddress('T', 'outputs/a b?#%2F.md'), '/tasks/T/files/outputs/a%20b%3F%23%252F.md')
  assert.equal(nameOf('a/b/c.txt'), 'c.txt')
  assert.equal(nameOf('c.txt'), 'c.txt')
})

test('folders with results, and those that lead to the selected file, are open at first', () => {
  assert.deepEqual(['outputs', 'workspace', 'temp', 'temp/backups', 'tem'].map((f) => opensFor(f, 'temp/backups/a')), [true, true, true, true, false])
})

test('bytes that are no text become replacement characters', () => {
  assert.equal(textOf({ ...part, text: 'a\r\nb' }), 'a\nb')
  assert.equal(textOf({ ...part, data: btoa('a\xFFb') }), 'a\uFFFDb')
  assert.equal(textOf(part), '')
})

test('each reason is said in words', () => {
  assert.match(whyShut({ path: 'a', kind: 'file', modified: '', closed: 'SECRET_FILE' }), /secrets/)
  assert.match(whyShut({ path: 'a', kind: 'other', modified: '' }), /pipe/)
  assert.equal(whyShut({ path: 'a', kind: 'file', modified: '' }), '')
  for (const reason of ['NO_WORKSPACE', 'WORKSPACE_REMOVED', 'IMPORTED']) assert.ok(absenceOf(reason, ''))
  assert.equal(absenceOf('WORKSPACE_ELSEWHERE', 'at gpu-2')?.text, 'at gpu-2')
  assert.equal(absenceOf('', 'x'), undefined)
})
