import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Commit } from '../src/api.ts'
import { emptyTask, fold, type Task } from '../src/fold.ts'
import { History } from '../src/history.ts'

/** Folded is what the program's fold says about a task. */
interface Folded {
  state: string
  reason: string
  block: string
  paused: boolean
  cancelling: boolean
  ending: boolean
  approvals: Record<string, string>
  questions: Record<string, string>
  steps: Record<string, { state: string; attempt: number; failures: number; repeats: number; lost: number; tool: string; worker: string; reason: string; approval: string; signal: string; child: string }>
}

interface Golden { commits: Commit[]; folded: Record<string, Folded> }

const histories = JSON.parse(readFileSync(new URL('../../test/histories.json', import.meta.url), 'utf8')) as Golden[]

function shown(t: Task): Folded {
  return {
    state: t.state, reason: t.reason, block: t.block, paused: t.paused, cancelling: t.cancelling, ending: t.ending,
    approvals: Object.fromEntries(t.approvals), questions: Object.fromEntries(t.questions),
    steps: Object.fromEntries([...t.steps].map(([key, s]) => {
      const { state, attempt, failures, repeats, lost, tool, worker, reason, approval, signal, child } = s
      return [key, { state, attempt, failures, repeats, lost, tool, worker, reason, approval, signal, child }]
    })),
  }
}

test('the fold equals that of the program', () => {
  assert.ok(histories.length >= 40)
  for (const [i, h] of histories.entries()) {
    const t = emptyTask()
    for (const c of h.commits) {
      fold(t, c)
      const want = h.folded[c.rev]
      if (want) assert.deepEqual(shown(t), want, `history ${i}, revision ${c.rev}`)
    }
    assert.equal(t.refused, 0)
  }
})

test('an event that the tables do not allow changes nothing', () => {
  const t = emptyTask()
  const at = '2026-11-26T12:00:00Z'
  const commit = (rev: number, kind: string, data = {}): Commit => ({ seq: rev, rev, at, hash: '', events: [{ kind, data }] })
  fold(t, commit(1, 'task.submitted', { name: 'n' }))
  const before = shown(t)
  fold(t, commit(2, 'step.called', { step: 'a' }))
  fold(t, commit(3, 'task.finished'))
  fold(t, commit(4, 'approval.granted', { id: 'none' }))
  assert.deepEqual(shown(t), before)
  assert.equal(t.refused, 3)
})

test('the history folds at any revision, and counts a commit that comes twice once', () => {
  const h = new History()
  const [first] = histories
  h.add(first?.commits ?? [])
  h.add(first?.commits ?? [])
  assert.equal(h.rev, first?.commits.length)
  for (const [rev, want] of Object.entries(first?.folded ?? {})) assert.deepEqual(shown(h.at(Number(rev))), want)
})

test('snapshots of a long history do not change what it folds to', () => {
  const h = new History()
  const at = '2026-11-26T12:00:00Z'
  h.add([{ seq: 1, rev: 1, at, hash: '', events: [{ kind: 'task.submitted', data: {} }] }])
  for (let rev = 2; rev <= 40_000; rev++) h.add([{ seq: rev, rev, at, hash: '', events: [{ kind: rev % 2 ? 'task.resumed' : 'task.paused', data: {} }] }])
  for (const rev of [1, 2, 257, 20_001, 39_998]) assert.equal(h.at(rev).paused, rev % 2 === 0, String(rev))
})
