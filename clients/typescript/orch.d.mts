// Types of orch.mjs.

/** A JSON value. */
export type JSON = null | boolean | number | string | JSON[] | { [name: string]: JSON }

export class OrchError extends Error {
  readonly status: number
  readonly code: string
  readonly field: string
  readonly retryAfter?: number
}

export interface Result {
  id: string
  state: string
  over: boolean
  waits?: boolean
  reason?: string
  output?: any
  error?: { name: string; message: string; field?: string; reason?: string; hint?: string }
}

export class Client {
  constructor(url: string, token: string)
  token: string
  submit(plan: object, options?: { inputs?: object; key?: string; [field: string]: unknown }): Promise<string>
  wait(task: string, timeout?: number): Promise<Result>
  signal(task: string, name: string, data?: unknown): Promise<void>
  request(verb: string, path: string, body?: unknown, options?: { retry?: boolean }): Promise<any>
}

export class Release extends Error {
  constructor(reason?: string, unsure?: boolean)
}

export interface Call {
  readonly ref: { task: string; step: string; attempt: number }
  readonly id: string
  readonly key: string
  readonly title: string
  readonly requires: string[]
  readonly data: any
  readonly left: number
  readonly lease: number
  readonly handover: string
  readonly handoverData: any
  readonly signal: AbortSignal
  progress(done: number, total?: number, message?: string): void
}

export interface Options {
  slots?: number
  wait?: number
  drain?: number
}

export class Worker {
  constructor(url: string, token: string, options?: Options)
  static fromFile(path: string, options?: Options): Promise<Worker>
  tool(capability: string, handler: (call: Call) => unknown): void
  run(): Promise<void>
  stop(): void
}
