import { useEffect, useRef, useState } from 'preact/hooks'
import type { Commit, HistoryReply, Progress } from './api.ts'
import { aborted, get } from './client.ts'
import { History } from './history.ts'
import { parse } from './json.ts'
import { stream } from './stream.ts'

const pageSize = 1000
const atOnce = 4
/** showEvery is how often a long history is drawn while it is read, in milliseconds. */
const showEvery = 400
/** rereadAfter is how long changes are collected before the task itself is read again, in milliseconds. */
const rereadAfter = 300

export interface Following { history: History; version: number; loaded: boolean; problem: unknown; progress: Record<string, Progress> }

/** useHistory reads the history of a task up to a revision and then follows it. version changes whenever commits came. */
export function useHistory(id: string, rev: number, changed: () => void): Following {
  const history = useRef(new History())
  const [version, setVersion] = useState(0)
  const [loaded, setLoaded] = useState(false)
  const [problem, setProblem] = useState<unknown>()
  const [progress, setProgress] = useState<Record<string, Progress>>({})
  const latest = useRef(changed)
  latest.current = changed
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const changedSoon = () => {
    timer.current ??= setTimeout(() => { timer.current = undefined; latest.current() }, rereadAfter)
  }
  useEffect(() => {
    if (!rev) return
    const h = (history.current = new History())
    const abort = new AbortController()
    let stop = (): void => {}
    setLoaded(false)
    let shown = 0
    const show = (commits: Commit[]) => {
      h.add(commits)
      if (performance.now() - shown > showEvery) { shown = performance.now(); setVersion((v) => v + 1) }
    }
    load(id, rev, abort.signal, show).then(() => {
      setLoaded(true)
      setVersion((v) => v + 1)
      stop = follow(id, h, () => { setVersion((v) => v + 1); changedSoon() }, setProgress)
    }).catch((e: unknown) => { if (!aborted(e)) setProblem(e) })
    return () => { abort.abort(); stop(); clearTimeout(timer.current); timer.current = undefined }
  }, [id, rev > 0])
  return { history: history.current, version, loaded, problem, progress }
}

/** load reads pages side by side and hands them on in order. */
async function load(id: string, rev: number, abort: AbortSignal, add: (commits: Commit[]) => void): Promise<void> {
  const pages = Array.from({ length: Math.ceil(rev / pageSize) }, (_, i) => i * pageSize + 1)
  const ready = new Map<number, Commit[]>()
  let [next, due] = [0, 0]
  const worker = async () => {
    while (next < pages.length) {
      const page = next++
      ready.set(page, await range(id, pages[page] ?? 1, pageSize, abort))
      for (; ready.has(due); due++) {
        add(ready.get(due) ?? [])
        ready.delete(due)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

/** range reads the commits from a revision on, also if the node returns fewer at a time. */
async function range(id: string, from: number, length: number, abort: AbortSignal): Promise<Commit[]> {
  const commits: Commit[] = []
  let next = from
  while (next && commits.length < length) {
    const page = await get<HistoryReply>(`/tasks/${id}/history`, { from: next, limit: length - commits.length }, abort)
    commits.push(...(page.commits ?? []))
    next = page.next ?? 0
  }
  return commits
}

/** follow adds the commits that come, all of one frame at once. */
function follow(id: string, h: History, show: () => void, progress: (p: Record<string, Progress>) => void): () => void {
  let batch: Commit[] = []
  const deliver = () => { h.add(batch); batch = []; show() }
  const close = stream(`/tasks/${id}/events`, () => ({ after: h.rev }), {
    events: {
      commit: (data) => {
        if (batch.length === 0) requestAnimationFrame(deliver)
        batch.push(parse<Commit>(data))
      },
      progress: (data) => progress(JSON.parse(data) as Record<string, Progress>),
      end: () => close(),
    },
  })
  return close
}
