import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Act, Summary } from '../src/api.ts'
import { callsOf, changedFiles, toolsOf, undoOf } from '../src/sessions.ts'

const call = (id: string, name: string, parent = ''): Summary => ({ id, name, state: 'DONE', updated_at: '2026-11-29T12:00:00Z', ...(parent ? { parent } : {}) })
const calls = [call('C3', 'FILE_EDIT'), call('C2', 'BASH_EXECUTE'), call('C1', 'FILE_EDIT')]

test('the calls of a session are neither the session nor children of a call', () => {
  assert.deepEqual(callsOf('S', [call('S', 'orch/session/x'), ...calls, call('C4', 'child', 'C1')]), calls)
  assert.equal(toolsOf(calls), 'FILE_EDIT ×2, BASH_EXECUTE')
  assert.equal(toolsOf(['a', 'b', 'c', 'd'].map((n) => call(n, n))), 'a, b, c, …')
})

test('a session was undone as a whole, or some of its calls', () => {
  const act = (n: number, target: string): Act => ({ n, at: `2026-11-29T12:00:0${n}Z`, actor: 'user:ada', face: 'http', act: 'task.undo', outcome: 'done', target, task: { id: `U${n}` } })
  assert.equal(undoOf('S', calls, [act(1, 'OTHER')]), undefined)
  assert.deepEqual(undoOf('S', calls, [act(2, 'C2'), act(1, 'C1'), act(3, 'C2')]), { at: '2026-11-29T12:00:03Z', actor: 'user:ada', task: 'U3', calls: 2 })
  assert.deepEqual(undoOf('S', calls, [act(1, 'S'), act(2, 'C2')]), { at: '2026-11-29T12:00:01Z', actor: 'user:ada', task: 'U1', calls: 0 })
})

test('the files of a call are in its history', () => {
  const event = (kind: string, data: Record<string, string>) => ({ kind, data })
  const commits = [{ events: [event('file.changed', { path: '/a', how: 'A' }), event('step.succeeded', {})] }, { events: [event('file.changed', { path: '/b', how: 'D' })] }]
  assert.deepEqual(changedFiles({ commits } as never), [{ path: '/a', how: 'new' }, { path: '/b', how: 'removed' }])
  assert.deepEqual(changedFiles(undefined), [])
})
