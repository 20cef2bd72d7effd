// The order of the inbox, and what its entries say.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalView, Summary } from '../src/api.ts'
import { askedFor, byUrgency, findingOut, type Item } from '../src/inbox.ts'

const at = (minutes: number): string => new Date(Date.UTC(2026, 10, 29, 12) + minutes * 60_000).toISOString()
const entry = (id: string, since: number, until?: number, kind: 'dead' | 'stuck' = 'dead'): Item =>
  ({ kind, id, task: id, title: id, taskName: id, since: at(since), asked: [], summary: {} as Summary, ...(until === undefined ? {} : { until: at(until) }) })

test('what ends soonest comes first, then what waits longest, of whatever kind', () => {
  const fraction: Item = { ...entry('soonest', -1, 5, 'stuck'), until: '2026-11-29T12:04:59.5Z' }
  const all = [entry('young', -1), entry('later', -60, 30), entry('old', -90), fraction, entry('soon', -2, 5), entry('same', -2, 5)]
  assert.deepEqual(all.sort(byUrgency).map((i) => i.id), ['soonest', 'same', 'soon', 'later', 'old', 'young'])
})

test('a batch has the order of its tasks and steps, whatever the order of its requests within a second', () => {
  const asks = (id: string, task: string, step: string, ms: number): Item =>
    ({ kind: 'approval', id, task, title: id, taskName: 'b', since: new Date(Date.UTC(2026, 10, 29, 12) + ms).toISOString(), until: new Date(Date.UTC(2026, 10, 29, 13) + ms).toISOString(), approval: { step } as ApprovalView })
  const all = [asks('third', 'TASK_3', 'a', 100), asks('last', 'TASK_1', 'a', 1000), asks('second', 'TASK_2', 'b', 0), asks('first', 'TASK_2', 'a', 900)]
  assert.deepEqual(all.sort(byUrgency).map((i) => i.id), ['first', 'second', 'third', 'last'])
})

test('a node that has just started says that it is still finding out what is stuck', () => {
  const now = Date.UTC(2026, 10, 29, 12)
  assert.equal(findingOut('2026-11-29T11:59:55.5Z', now), 'The node has started 4 s ago and is still finding out what is stuck.')
  assert.equal(findingOut('2026-11-29T12:00:01Z', now), 'The node has started 0 s ago and is still finding out what is stuck.')
  assert.equal(findingOut('2026-11-29T11:59:45Z', now), '')
  assert.equal(findingOut(undefined, now), '')
})

test('an approval says what its call would do, unless its author has written what it is about', () => {
  const a = (description: string, args: unknown, tool = 'BASH_EXECUTE'): string => askedFor({ description, tool, step: 'push', args } as ApprovalView)
  assert.equal(a('allow BASH_EXECUTE in step push', { argv: ['x'], command: 'rm -rf\n  build', cwd: '/srv' }), 'allow BASH_EXECUTE: rm -rf build')
  assert.equal(a('allow FILE_WRITE in step push', { content: 'much', file_path: 'notes.md' }, 'FILE_WRITE'), 'allow FILE_WRITE: notes.md')
  assert.equal(a('allow X in step push', { n: 1, name: 'west' }, 'X'), 'allow X: west')
  assert.equal(a('allow X in step push', { $omitted: 70_000 }, 'X'), 'allow X in step push')
  assert.equal(a('Publish the site?', { command: 'make publish' }), 'Publish the site?')
})
