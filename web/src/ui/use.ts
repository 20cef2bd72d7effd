import { useCallback, useEffect, useState } from 'preact/hooks'
import { aborted, Fault, get, type Query } from '../client.ts'
import { epoch } from '../node.ts'

/** Read is the result of a request that a page shows. */
export interface Read<T> { data: T | undefined; problem: unknown; reload: () => void; set: (data: T) => void }

/** live is how often a page that no stream keeps current reads again, in milliseconds. */
export const live = 5000

/**
 * useGet reads an address, again when the address changes or when the node may have changed meanwhile. '' reads nothing. every is after how
 * many milliseconds it reads again while the page can be seen; 0 for never.
 */
export function useGet<T>(path: string, query: Query = {}, every = 0): Read<T> {
  const [data, set] = useState<T>()
  const [problem, setProblem] = useState<unknown>()
  const [round, setRound] = useState(0)
  const key = path + JSON.stringify(query)
  useEffect(() => { set(undefined) }, [key])
  useEffect(() => {
    if (!path) return
    const abort = new AbortController()
    const began = performance.now()
    const again = () => { if (every) later(Math.max(every, share * (performance.now() - began)), reload, abort.signal) }
    get<T>(path, query, abort.signal).then((d) => { set(d); setProblem(undefined); again() }, (e: unknown) => {
      if (aborted(e)) return
      setProblem(e)
      if (mayPass(e)) again()
    })
    return () => abort.abort()
  }, [key, round, epoch.value])
  const reload = useCallback(() => setRound((r) => r + 1), [])
  return { data, problem, reload, set }
}

/** share bounds what reading again costs: the page waits so many times as long as the last answer took. */
export const share = 20

/** mayPass reports whether there is an error that may be gone at the next try. A refusal stays one, and each is in the audit stream. */
export const mayPass = (e: unknown): boolean => e !== undefined && (!(e instanceof Fault) || e.status === 0 || e.status === 429 || e.status >= 500)

/** later calls a function after some milliseconds, and not before the page can be seen. */
export function later(ms: number, run: () => void, until: AbortSignal): void {
  const seen = () => { if (document.hidden) document.addEventListener('visibilitychange', seen, { once: true, signal: until }); else run() }
  const timer = setTimeout(seen, ms)
  until.addEventListener('abort', () => clearTimeout(timer))
}

/** Action is a request that changes something. */
export interface Action { busy: boolean; problem: unknown; run: (work: () => Promise<unknown>) => Promise<boolean> }

/** useAction runs one request at a time. run returns whether it succeeded. stale is called after a conflict: what is shown is out of date. */
export function useAction(stale?: () => void): Action {
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<unknown>()
  const run = async (work: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true)
    setProblem(undefined)
    try {
      await work()
      return true
    } catch (e) {
      setProblem(e)
      if (e instanceof Fault && e.status === 409) stale?.()
      return false
    } finally {
      setBusy(false)
    }
  }
  return { busy, problem, run }
}

/** useTitle sets the title of the window. */
export function useTitle(title: string): void {
  useEffect(() => { pageTitle(title) }, [title])
}

let current = ''
let waitingCount = 0
function pageTitle(title: string): void {
  current = title
  document.title = `${waitingCount ? `(${waitingCount}) ` : ''}${current} · orch`
}

/** setWaiting puts the count of what waits for people before the title of every page. */
export function setWaiting(n: number): void {
  waitingCount = n
  pageTitle(current)
}
