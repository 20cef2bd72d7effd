// What a search in the inbox finds, and what tells rows of one name apart.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalView, QuestionView, Summary } from '../src/api.ts'
import type { Item } from '../src/inbox.ts'
import { apart, found } from '../src/inboxrows.ts'

const base = (id: string, title: string, taskName: string) => ({ id, task: `TASK_${id}`, title, taskName, since: '' })
const approval = (id: string, of: Partial<ApprovalView>): Item =>
  ({ ...base(id, 'Deploy?', 'deploy'), kind: 'approval', approval: { submitter: 'user:ada', requester: 'user:ada', ...of } as ApprovalView })
const dead = (id: string, labels: Record<string, string>, requestor = 'user:ada'): Item =>
  ({ ...base(id, 'HTTP_ERROR', 'nightly'), kind: 'dead', asked: [], summary: { labels, requestor } as unknown as Summary })
const question = (id: string, params: unknown): Item =>
  ({ ...base(id, 'Which one?', 'choose'), kind: 'question', question: { step: 'ask', tool: 'QUESTION_ASK', params } as QuestionView })

test('a search finds parts of names, tools, people, labels and ids, each word of it', () => {
  const all = [approval('APR_1', { tool: 'GIT_PUSH', step: 'push' }), dead('TASK_2', { team: 'shop' }, 'user:eve'), question('ASK_3', {})]
  const ids = (search: string) => found(all, search).map((i) => i.id)
  assert.deepEqual(ids(''), ['APR_1', 'TASK_2', 'ASK_3'])
  assert.deepEqual(ids('  git_push '), ['APR_1'])
  assert.deepEqual(ids('NIGHT eve'), ['TASK_2'])
  assert.deepEqual(ids('night ada'), [])
  assert.deepEqual(ids('team=shop'), ['TASK_2'])
  assert.deepEqual(ids('question_ask'), ['ASK_3'])
  assert.deepEqual(ids('task_ask_3'), ['ASK_3'], 'the id of its task')
})

test('rows of one name say what tells them apart: the fact with the most values', () => {
  const says = (items: Item[]) => Object.fromEntries(apart(items))
  const details = (region: string, n: number) => ({ details: { fixed: 'x', stage: n > 1 ? 'b' : 'a', region } })
  assert.deepEqual(says([approval('1', details('eu', 1)), approval('2', details('us', 2)), approval('3', details('ap', 3))]), { 1: 'region eu', 2: 'region us', 3: 'region ap' })
  assert.deepEqual(says([approval('1', { args: { n: 1 } }), approval('2', { args: { n: 2, list: [1] } }), approval('3', {})]), { 1: 'n 1', 2: 'n 2', 3: 'n not given' })
  assert.deepEqual(says([approval('1', { rationale: 'region eu' }), approval('2', { rationale: 'region us' })]), { 1: 'region eu', 2: 'region us' })
  assert.deepEqual(says([dead('1', { shard: 'a' }), dead('2', { shard: 'b' }), approval('3', {})]), { 1: 'shard a', 2: 'shard b' }, 'one that is alone says nothing')
  assert.deepEqual(says([dead('1', {}, 'user:eve'), dead('2', {})]), { 1: 'by user:eve', 2: 'by user:ada' })
  assert.deepEqual(says([dead('AAAAAAA1', {}), dead('AAAAAAA2', {})]), { AAAAAAA1: '…AAAAA1', AAAAAAA2: '…AAAAA2' }, 'only the id is left')
  assert.deepEqual(says([question('1', { from: 'a\n b' }), question('2', { from: 'c' })]), { 1: 'from a b', 2: 'from c' })
  assert.deepEqual(says([approval('1', { args: { $omitted: 70_000 } }), approval('2', { args: { $omitted: 80_000 } })]), { 1: '…TASK_1', 2: '…TASK_2' })
  assert.deepEqual(says([question('1', { from: 'x'.repeat(500) }), question('2', {})]), { 1: `${'x'.repeat(31)}…`, 2: 'from not given' })
  const ssh = (host: string): Item => ({ ...approval(host, { tool: 'BASH_EXECUTE', args: { command: `ssh ops@gate sudo systemctl restart ${host} --now`, argv: [] } }), title: `allow BASH_EXECUTE: ssh ops@gate sudo systemctl restart ${host} --now` }) as Item
  assert.deepEqual(says([ssh('web-17'), ssh('db-2')]), { 'web-17': '…restart web-17…', 'db-2': '…restart db-2…' }, 'titles whose visible beginnings are the same')
})

test('lists and objects among the arguments tell rows apart, and are found', () => {
  const run = (id: string, host: string) => approval(id, { tool: 'BASH_EXECUTE', args: { command: 'deploy.sh "$2" "$1"', argv: [host, 'prod'], env: { REGION: 'eu' } }, details: { owner: { team: 'shop' }, steps: [{ n: 1 }] } })
  const all = [run('1', 'web-17'), run('2', 'web-18')]
  assert.deepEqual(Object.fromEntries(apart(all)), { 1: 'argv web-17, prod', 2: 'argv web-18, prod' })
  const ids = (search: string) => found(all, search).map((i) => i.id)
  assert.deepEqual(ids('argv web-17, prod'), ['1'], 'what the row says')
  assert.deepEqual(ids('web-18'), ['2'])
  assert.deepEqual(ids('region eu'), ['1', '2'])
  assert.deepEqual(ids('owner.team shop'), ['1', '2'])
  assert.deepEqual(ids('deploy.sh eve'), [])
  const nested = (n: number): Item => question(String(n), { body: { target: { host: `db-${n}` } } })
  assert.deepEqual(Object.fromEntries(apart([nested(1), nested(2)])), { 1: 'body.target.host db-1', 2: 'body.target.host db-2' })
})
