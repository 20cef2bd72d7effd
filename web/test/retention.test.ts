import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytes } from '../src/format.ts'
import { keptFor } from '../src/retention.ts'

test('times of rules', () => {
  const hour = 3600e9
  assert.deepEqual([0, 24 * hour, 720 * hour, 36 * hour].map(keptFor), ['for ever', '1 day', '30 days', '1d12h'])
})

test('sizes', () => {
  assert.deepEqual([0, 1, 1023, 1024, 5_300_000, 2 ** 50].map(bytes), ['0 bytes', '1 byte', '1\u2009023 bytes', '1.0 KiB', '5.1 MiB', '1024.0 TiB'])
})
