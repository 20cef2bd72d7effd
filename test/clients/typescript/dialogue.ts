// What a program does with the generated client: each function is a test against the node at a URL.
import assert from 'node:assert/strict'
import { createClient, createConfig, type Client } from '../build/api/client/index.js'
import * as orch from '../build/api/index.js'

const log = { id: 'say', tool: 'LOG_WRITE', with: { level: 'INFO', message: 'hello' } }

/** Dialogue talks to a node as one identity. root is a folder in which tasks may write. */
export class Dialogue {
  readonly #client: Client

  constructor(readonly url: string, token: string, readonly root: string) {
    this.#client = connect(url, token)
  }

  /** submitsOnce submits a plan twice with one key, and gets one task. */
  async submitsOnce(): Promise<void> {
    const request = {
      client: this.#client, headers: { 'Idempotency-Key': 'typescript-once' },
      body: { plan: { orch: 'v1', name: 'once', steps: [log] }, labels: { by: 'typescript' } },
    }
    const first = await orch.submit(request)
    const again = await orch.submit(request)
    assert.equal(first.response?.status, 201)
    assert.equal(again.response?.status, 200)
    assert.equal(again.data?.id, first.data?.id)
    const id = first.data?.id ?? ''
    const result = must(await orch.result({ client: this.#client, path: { id }, query: { wait: '30s' } }))
    assert.equal(result.state, 'DONE')
    const task = must(await orch.get({ client: this.#client, path: { id } }))
    assert.deepEqual(task.labels, { by: 'typescript' })
    assert.equal(task.steps?.[0]?.tool, 'LOG_WRITE')
  }

  /** readsPages reads a list in pages of two, and gets each task once. */
  async readsPages(): Promise<void> {
    const plan = { orch: 'v1', name: 'typescript-page', steps: [log] }
    const batch = must(await orch.submitBatch({ client: this.#client, body: { tasks: Array.from({ length: 5 }, () => ({ plan })) } }))
    const wanted = (batch.tasks ?? []).map((task) => task.id ?? '')
    const found: string[] = []
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page = must(await orch.list({ client: this.#client, query: { name: 'typescript-page', limit: 2, cursor } }))
      assert.ok((page.tasks ?? []).length <= 2)
      found.push(...(page.tasks ?? []).map((task) => task.id))
      cursor = page.next
    }
    assert.deepEqual(found.toSorted(), wanted.toSorted())
  }

  /** approvesAndFollows follows a task, decides about its call, and resumes the stream where it was left. */
  async approvesAndFollows(): Promise<void> {
    const write = { id: 'write', tool: 'FILE_WRITE', with: { file_path: `${this.root}/typescript.txt`, content: 'hello' } }
    const { id } = must(await orch.submit({ client: this.#client, body: { plan: { orch: 'v1', name: 'follow', steps: [write] } } }))
    const before = await this.#commits(id, undefined, (commit) => (commit.events ?? []).some((e) => e.kind === 'approval.requested'))
    const waiting = must(await orch.approvals({ client: this.#client, query: { task: id } })).approvals?.[0]
    assert.equal(waiting?.tool, 'FILE_WRITE')
    const decided = must(await orch.decide({ client: this.#client, path: { id: waiting.id }, body: { as: 'granted', reason: 'fine' } }))
    assert.equal(decided.status, 'granted')
    const after = await this.#commits(id, before.at(-1), () => false)
    const history = must(await orch.history_({ client: this.#client, path: { id } }))
    assert.deepEqual([...before, ...after], history.commits?.map((commit) => commit.rev))
    assert.equal(must(await orch.get({ client: this.#client, path: { id } })).state, 'DONE')
  }

  /** answersAsDescribed reads everything that there is about a task and the node. The client checks each answer. */
  async answersAsDescribed(): Promise<void> {
    const plan = { orch: 'v1', name: 'described', steps: [log, { id: 'wait', needs: ['say'], wait: { for: '1h' } }] }
    const { id } = must(await orch.submit({ client: this.#client, body: { plan } }))
    const one = { client: this.#client, path: { id } }
    const saved = must(await orch.checkpoint({ ...one, body: { name: 'here' } }))
    must(await orch.readCheckpoint({ client: this.#client, path: { id, cp: saved.checkpoints?.[0]?.id ?? '' } }))
    for (const read of [orch.get, orch.history_, orch.replay, orch.explain, orch.plan, orch.checkpoints, orch.result]) must<unknown>(await read(one))
    must(await orch.export_(one))
    for (const read of [orch.status, orch.queue, orch.approvals, orch.questions, orch.list]) must<unknown>(await read({ client: this.#client }))
    must(await orch.diff({ client: this.#client, query: { a: id, b: id } }))
    for (const steer of [orch.pauseTask, orch.resumeTask, orch.cancel]) must<unknown>(await steer({ ...one, body: {} }))
    must(await orch.retry({ ...one, body: {} }))
    must(await orch.fork({ ...one, body: { at: '1' } }))
  }

  /** #commits returns the revisions of a stream that begins after one, until the task or the stream has ended. */
  async #commits(id: string, after: number | undefined, last: (commit: orch.CommitView) => boolean): Promise<number[]> {
    const revisions: number[] = []
    const end = new AbortController()
    const headers = after === undefined ? {} : { 'Last-Event-ID': String(after) }
    const { stream } = await orch.taskEvents({ client: this.#client, path: { id }, headers, signal: end.signal })
    for await (const data of stream) {
      if (!isCommit(data)) continue
      revisions.push(data.rev)
      if (last(data)) break
    }
    end.abort()
    return revisions
  }

  /** getsErrors makes mistakes, and gets the codes and the fields. */
  async getsErrors(): Promise<void> {
    const field = await orch.list({ client: this.#client, query: { limit: 5000 } })
    assert.equal(field.response?.status, 400)
    assert.equal(field.error?.error.code, 'VALIDATION_ERROR')
    assert.equal(field.error?.error.field, 'limit')
    const missing = await orch.get({ client: this.#client, path: { id: 'tsk_none' } })
    assert.equal(missing.error?.error.code, 'NOT_FOUND')
    const stranger = await orch.status({ client: connect(this.url, 'wrong') })
    assert.equal(stranger.error?.error.code, 'UNAUTHORIZED')
  }
}

/** connect returns a client with a token. */
function connect(url: string, token: string): Client {
  return createClient(createConfig({ baseUrl: url, auth: token }))
}

/** must returns the data of an answer, and throws its error. */
function must<T>(answer: { data?: T; error?: orch.ErrorBody }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error))
  return answer.data
}

/** isCommit tells a commit from the other events of a task. */
function isCommit(data: orch.TaskEventsResponse): data is orch.CommitView {
  return 'rev' in data && typeof data.rev === 'number'
}
