import { useCallback, useEffect, useState } from 'preact/hooks'
import { aborted, Fault, get, type Query } from '../client.ts'
import { epoch } from '../node.ts'

/** Read is the result of a request that a page shows. */
export interface Read<T> { data: T | undefined; problem: unknown; reload: () => void; set: (data: T) => void }

/** useGet reads an address, again when the address changes or when the node may have changed meanwhile. '' reads nothing. */
export function useGet<T>(path: string, query: Query = {}): Read<T> {
  const [data, set] = useState<T>()
  const [problem, setProblem] = useState<unknown>()
  const [round, setRound] = useState(0)
  const key = path + JSON.stringify(query)
  useEffect(() => { set(undefined) }, [key])
  useEffect(() => {
    if (!path) return
    const abort = new AbortController()
    get<T>(path, query, abort.signal).then((d) => { set(d); setProblem(undefined) }, (e: unknown) => { if (!aborted(e)) setProblem(e) })
    return () => abort.abort()
  }, [key, round, epoch.value])
  return { data, problem, reload: useCallback(() => setRound((r) => r + 1), []), set }
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
