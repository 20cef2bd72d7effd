// Requests to the API of the node that serves the page.
import { signal } from '@preact/signals'
import type { FaultView } from './api.ts'
import { learnTime, timeIsKnown } from './clock.ts'
import { parse } from './json.ts'

const base = '/api/v1'

/** signedOut is true once the node has refused the cookie of the page. */
export const signedOut = signal(false)

/** Fault is an error of the API, or of the way to it. */
export class Fault extends Error {
  readonly code: string
  readonly status: number
  readonly field: string
  readonly reason: string
  readonly hint: string
  readonly requestID: string

  constructor(status: number, e: Partial<FaultView> & { code?: string | number; request_id?: string }) {
    super(e.message ?? 'the node did not answer')
    this.code = String(e.name ?? e.code ?? 'UNAVAILABLE')
    this.status = status
    this.field = e.field ?? ''
    this.reason = e.reason ?? ''
    this.hint = e.hint ?? ''
    this.requestID = e.request_id ?? ''
  }
}

export type Query = Record<string, string | number | boolean | string[] | undefined>

/** address returns the address of a path of the API with a query; empty values are left out. */
export function address(path: string, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) if (v !== undefined && v !== '' && v !== false) search.append(name, String(v))
  }
  const text = search.toString()
  return base + path + (text && '?' + text)
}

/** get reads. The signal ends the request. */
export const get = <T>(path: string, query?: Query, abort?: AbortSignal): Promise<T> =>
  send<T>(address(path, query), { headers: { Accept: 'application/json' }, ...(abort ? { signal: abort } : {}) })

/** knowTime asks for the time of the node if no answer has told it: the clock of the browser may be wrong. */
export async function knowTime(abort?: AbortSignal): Promise<void> {
  if (!timeIsKnown()) await get('/status', {}, abort)
}

/** post writes. */
export const post = <T>(path: string, body: unknown = {}): Promise<T> =>
  send<T>(address(path), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json', 'X-Orch-Request': '1' },
    body: JSON.stringify(body),
  })

async function send<T>(url: string, init: RequestInit): Promise<T> {
  const asked = Date.now()
  const response = await fetch(url, { credentials: 'same-origin', ...init }).catch((e: unknown) => { throw unreachable(e) })
  learnTime(response.headers.get('Date'), asked, Date.now())
  const body = await response.text()
  if (response.status === 401) signedOut.value = true
  if (!response.ok) throw refusal(response.status, body)
  return parse<T>(body)
}

function unreachable(e: unknown): unknown {
  return e instanceof DOMException && e.name === 'AbortError' ? e : new Fault(0, { code: 'UNAVAILABLE', message: 'the node cannot be reached' })
}

function refusal(status: number, body: string): Fault {
  try {
    return new Fault(status, (JSON.parse(body) as { error?: object }).error ?? {})
  } catch {
    return new Fault(status, { message: `the node answered with status ${status}` })
  }
}

/** aborted reports whether an error only says that a request was given up. */
export const aborted = (e: unknown): boolean => e instanceof DOMException && e.name === 'AbortError'
