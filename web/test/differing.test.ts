// The parts in which long texts differ.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differing, longest } from '../src/differing.ts'

const tests: { name: string; texts: string[]; want: string[] }[] = [
  { name: 'the middle, with the word before it', texts: ['ssh ops@gate sudo systemctl restart web-17 --now', 'ssh ops@gate sudo systemctl restart db-2 --now'], want: ['…restart web-17…', '…restart db-2…'] },
  { name: 'the end', texts: ['/srv/releases/deploy.sh --to host-a', '/srv/releases/deploy.sh --to host-b'], want: ['…--to host-a', '…--to host-b'] },
  { name: 'the beginning', texts: ['web-17, prod, and the rest', 'web-18, prod, and the rest'], want: ['web-17…', 'web-18…'] },
  { name: 'within a long word', texts: ['https://example.com/api/v1/services/a7/restart', 'https://example.com/api/v1/services/b8/restart'], want: ['…/services/a7/restart', '…/services/b8/restart'] },
  { name: 'one lacks what the other has', texts: ['deploy --to host', 'deploy --to host --force'], want: ['…--to host', '…--to host --force'] },
  { name: 'all that is shared is left out once: what repeats at the seam', texts: ['aXa', 'aXaXa'], want: ['aXa', 'aXaXa'] },
  { name: 'those that begin to differ late are compared among themselves', texts: ['a first long sentence about the host web-1 today', 'a first long sentence about the host web-2 today', 'no sentence'], want: ['…host web-1…', '…host web-2…', 'no sentence'] },
  { name: 'the same text twice', texts: ['run on a', 'run on b', 'run on a'], want: ['…on a', '…on b', '…on a'] },
  { name: 'no half of a pair of surrogates', texts: ['say 😀 now', 'say 😁 now'], want: ['say 😀…', 'say 😁…'] },
  { name: 'a text alone', texts: ['only'], want: ['only'] },
  { name: 'none', texts: [], want: [] },
]
for (const { name, texts, want } of tests) test(`differing: ${name}`, () => assert.deepEqual(differing(texts), want))

test('differing: each of many texts has a short part of its own, wherever it differs', () => {
  for (const at of [0, 7, 40, 200, 900]) {
    const texts = Array.from({ length: 60 }, (_, i) => `${'word '.repeat(at / 5)}${i % 2 ? 'x'.repeat(300) : 'y'.repeat(10)} host-${i} ${'more '.repeat(50)}`)
    const parts = differing(texts)
    assert.equal(new Set(parts).size, texts.length, `at ${at}: ${parts.slice(0, 3).join(' | ')}`)
    for (const p of parts) assert.ok([...p].length <= longest, p)
  }
})
