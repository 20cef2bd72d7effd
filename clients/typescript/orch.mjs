// @ts-check
// A client of a node and a worker for it, without packages, for Node.js 20 or newer. Its types are in orch.d.mts.
//
//   const node = new Client('http://127.0.0.1:7424', token)
//   console.log((await node.wait(await node.submit(plan))).state)
//   const worker = await Worker.fromFile('worker.json', { slots: 8 }) // orch agents register photos --capability resize -o json > worker.json
//   worker.tool('resize', async call => ({ width: call.data.width / 2 }))
//   await worker.run() // until worker.stop()

import { createHash, randomBytes, randomInt } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'

const SECOND = 1_000_000_000 // durations in bodies are nanoseconds
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

/** An error that the node answers. code is a name of its registry, such as NOT_FOUND. */
export class OrchError extends Error {
  constructor(status, details) {
    super(`${details.code} ${details.field ?? ''}: ${details.message}`)
    Object.assign(this, { status, code: details.code ?? '', field: details.field ?? '', retryAfter: details.retry_after })
  }
}

/** A node. */
export class Client {
  #url
  constructor(url, token) {
    this.#url = url.replace(/\/+$/, '')
    this.token = token
    this.renewing = Promise.resolve()
  }

  /** Submits a plan and returns the id of the task. With a key, a plan that is submitted again is the same task. */
  async submit(plan, { inputs, key, ...fields } = {}) {
    const body = { plan, ...fields, ...(inputs === undefined ? {} : { inputs }), ...(key ? { idempotency_key: key } : {}) }
    return (await this.request('POST', '/api/v1/tasks', body, { retry: Boolean(key) })).id
  }

  /** Waits for the end of a task and returns its state, output and error. Throws after timeout milliseconds. */
  async wait(task, timeout = Infinity) {
    const end = performance.now() + timeout
    for (;;) {
      const left = Math.max(0, Math.min(30_000, end - performance.now()))
      const result = await this.request('GET', `/api/v1/tasks/${encodeURIComponent(task)}/result?wait=${Math.round(left)}ms`, undefined, { retry: true })
      if (result.over) return result
      if (performance.now() >= end) throw new Error(`${task} is ${result.state}`)
    }
  }

  /** Delivers data to a step that waits for a signal. */
  async signal(task, name, data = null) {
    await this.request('POST', `/api/v1/tasks/${encodeURIComponent(task)}/signal`, { name, data })
  }

  /** Sends a request and returns the JSON of the answer. With retry, it is repeated while the node cannot be reached. */
  async request(verb, path, body, { retry = false } = {}) {
    for (let delay = 50; ; delay = Math.min(delay * 2, 5000)) {
      const token = this.token
      let pause = delay
      try {
        const answer = await fetch(this.#url + path, {
          method: verb, headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body),
        })
        const text = await answer.text()
        const json = answer.headers.get('Content-Type')?.startsWith('application/json') ? JSON.parse(text) : { code: '', message: text.slice(0, 200) }
        if (answer.ok) return json
        await this.renewing
        if (answer.status === 401 && token !== this.token) continue
        const error = new OrchError(answer.status, json.error ?? json)
        if (!retry || (error.status < 500 && error.status !== 429)) throw error
        pause = Math.max(delay, (error.retryAfter ?? 0) * 1000)
      } catch (error) {
        if (!retry || error instanceof OrchError) throw error
      }
      await sleep(pause * (1 + Math.random() / 2))
    }
  }
}

/** Thrown by a handler to give its call back. unsure says that it may have changed something. */
export class Release extends Error {
  constructor(reason = '', unsure = false) {
    super(reason)
    this.unsure = unsure
  }
}

/** A call that a handler works on. */
class Call {
  constructor(sent) {
    this.ref = { task: sent.task, step: sent.step, attempt: sent.attempt }
    this.id = sent.call
    this.key = sent.key
    this.lease = sent.lease / SECOND
    this.title = sent.args.title
    this.requires = sent.args.requires ?? []
    this.data = sent.args.data
    Object.assign(this, { handover: sent.handover ?? '', handoverData: sent.handover_data, left: sent.left / SECOND })
    this.aborter = new AbortController() // its signal is aborted when the call was cancelled or has no time left
    this.signal = this.aborter.signal
    this.running = this.ref
  }

  /** Shows how far the call is, with the next request. */
  progress(done, total = 0, message = '') {
    this.running = { ...this.ref, progress: { done, total, message } }
  }
}

/** A worker for the capabilities of a registered agent. It speaks version 1 of the worker protocol. */
export class Worker {
  #tools = new Map()
  #calls = new Map() // until the receipts of their reports
  #reports = new Map() // of calls that have ended
  #sending = new Set()
  #instance = randomBytes(16).toString('hex')
  #changed = []
  #polling = false
  #stopping = false
  #failure

  constructor(url, token, { slots = 1, wait = 20, drain = 10, credential = undefined } = {}) {
    this.client = new Client(url, token)
    Object.assign(this, { slots, wait, drain, credential })
  }

  /** Returns a worker with the credential in a file, which it renews there. */
  static async fromFile(path, options = {}) {
    const credential = new Credential(path, JSON.parse(await readFile(path, 'utf8')))
    return new Worker(credential.fields.url, credential.fields.secret, { ...options, credential })
  }

  /** Sets the handler of the calls that require a capability. It returns the result, a JSON value. */
  tool = (capability, handler) => void this.#tools.set(capability, handler)

  /** Takes no more calls. run returns when those that run have ended, or drain seconds have passed. */
  stop() {
    this.#stopping = true
    this.#wake()
  }

  /** Works until stop is called. Throws if the node refuses the worker. */
  async run() {
    const polls = this.#guard(() => this.#poll()).then(() => (this.#polling = false))
    const reports = this.#guard(() => this.#report())
    while (!this.#stopping) await this.#change()
    const end = performance.now() + this.drain * 1000
    while (!this.#failure && this.#reports.size < this.#calls.size && performance.now() < end) await this.#change(end - performance.now())
    for (const [id, call] of this.#calls) {
      call.aborter.abort()
      if (!this.#reports.has(id)) this.#reports.set(id, { ...call.ref, release: true, unsure: true })
    }
    this.#wake()
    while (this.#polling && !this.#failure) { // ends the request that waits
      await this.#guard(() => this.#ask({ wait: 1e-9 }))
      await Promise.race([polls, sleep(50)])
    }
    await Promise.all([polls, reports])
    if (this.#failure) throw this.#failure
    await this.#ask({ leaving: true })
  }

  #wake() {
    for (const resolve of this.#changed.splice(0)) resolve()
  }

  /** Waits for a change, at most ms milliseconds. */
  #change(ms = 1e6) {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms)
      this.#changed.push(() => resolve(clearTimeout(timer)))
    })
  }

  #guard(loop) {
    return loop().catch(failure => this.stop(this.#failure ??= failure))
  }

  /** Takes calls, and reports those that have ended meanwhile. Only a request without reports waits for calls. */
  async #poll() {
    while (!this.#stopping) {
      const take = this.slots + this.#reports.size - this.#calls.size
      if (take <= 0) {
        await this.#change()
        continue
      }
      this.#polling = true
      this.#wake()
      const answer = await this.#ask({ take, wait: this.#unsent().length > 0 ? 0 : this.wait })
      for (const sent of answer.calls ?? []) {
        const call = new Call(sent)
        this.#calls.set(call.id, call)
        this.#handle(call)
      }
      this.#wake()
      this.#polling = this.#stopping
      await new Promise(setImmediate) // what ends at once is reported together
    }
  }

  /** Reports what ends while a request for calls waits, and keeps the leases. */
  async #report() {
    for (;;) {
      const due = () => this.#failure || (this.#unsent().length > 0 && (this.#polling || this.#stopping)) || (this.#stopping && this.#calls.size === 0)
      const began = performance.now()
      const left = () => began + Math.min(60, ...[...this.#calls.values()].map(call => call.lease)) * 250 - performance.now()
      while (!due() && left() > 0) await this.#change(left())
      if (this.#failure || (this.#stopping && this.#calls.size === 0)) return
      if (this.#calls.size > 0) await this.#ask()
      if (this.credential?.due()) await this.credential.renew(this.client)
    }
  }

  #unsent() {
    return [...this.#reports.keys()].filter(id => !this.#sending.has(id))
  }

  /** Sends a request with all reports that no other request has, and processes the receipts and stops. */
  async #ask({ take = 0, wait = 0, leaving = false } = {}) {
    const mine = this.#unsent().slice(0, 500)
    for (const id of mine) this.#sending.add(id)
    const running = [...this.#calls].filter(([id]) => !mine.includes(id)).map(([, call]) => call.running)
    const body = { instance: this.#instance, done: mine.map(id => this.#reports.get(id)), running, take, wait: Math.round(wait * SECOND), leaving }
    try {
      const answer = await this.client.request('POST', '/api/v1/work', body, { retry: true })
      for (const [i, id] of mine.entries()) this.#received(id, answer.done?.[i]?.error)
      for (const ref of answer.stop ?? []) {
        const id = `${ref.task}/${ref.attempt}/${ref.step}`
        if (this.#sending.has(id)) continue
        this.#calls.get(id)?.aborter.abort()
        this.#calls.delete(id)
        this.#reports.delete(id)
      }
      return answer
    } finally {
      for (const id of mine) this.#sending.delete(id)
      this.#wake()
    }
  }

  #received(id, error) {
    if (error && ['UNAVAILABLE', 'RATE_LIMITED'].includes(error.name)) return
    const report = this.#reports.get(id)
    this.#reports.delete(id)
    if (error && error.name !== 'CONFLICT' && report && report.error === undefined) {
      this.#reports.set(id, { ...report, result: undefined, release: undefined, unsure: undefined, error: `the report was refused: ${error.message}`.slice(0, 1000) })
    } else {
      this.#calls.delete(id)
    }
  }

  async #handle(call) {
    let report
    try {
      const handler = this.#tools.get(call.requires.find(name => this.#tools.has(name)))
      if (!handler || this.#stopping) throw new Release(this.#stopping ? 'the worker stops' : `the worker has no tool for ${call.requires}`)
      report = { result: (await handler(call)) ?? null }
      JSON.stringify(report)
    } catch (failure) {
      report = { error: String(failure).slice(0, 1000) }
      if (failure instanceof Release) report = { release: true, unsure: failure.unsure, error: failure.message }
    }
    if (this.#calls.has(call.id) && !this.#reports.has(call.id)) this.#reports.set(call.id, { ...call.ref, ...report })
    this.#wake()
  }
}

/** The file of the credential of an agent, as orch agents register -o json prints it. */
class Credential {
  constructor(path, fields) {
    this.path = path
    this.fields = fields
  }

  /** Reports whether half of its life has passed, or a renewal was interrupted. */
  due() {
    const [issued, expires] = [Date.parse(this.fields.issued_at), Date.parse(this.fields.expires_at)]
    return Boolean(this.fields.next) || Date.now() > (issued + expires) / 2
  }

  /** Replaces the secret. The next one is in the file before the node knows its digest, so that no crash loses both. */
  async renew(client) {
    const next = this.fields.next || 'orch_' + Array.from({ length: 43 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
    await this.#write({ next })
    const ask = token => new Client(this.fields.url, token).request('POST', '/agents/credential', { digest: createHash('sha256').update(next).digest('hex') }, { retry: true })
    const renewed = ask(this.fields.secret).catch(error => (error.status === 401 ? ask(next) : Promise.reject(error)))
    client.renewing = renewed.then(() => { client.token = next }, () => {})
    await this.#write({ next: '', secret: next, issued_at: new Date().toISOString(), expires_at: (await renewed).expires_at })
  }

  async #write(fields) {
    Object.assign(this.fields, fields)
    const file = await open(this.path + '.new', 'w', 0o600)
    await file.writeFile(JSON.stringify(this.fields))
    await file.sync()
    await file.close()
    await rename(this.path + '.new', this.path)
  }
}
