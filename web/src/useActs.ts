import { useEffect, useMemo, useState } from 'preact/hooks'
import type { AuditReply } from './api.ts'
import { newer, older, queryOf, type Acts, type Filters } from './audit.ts'
import { aborted, get, knowTime, type Query } from './client.ts'
import { nodeTime } from './clock.ts'
import { epoch } from './node.ts'
import { later, live, mayPass, share } from './ui/use.ts'

/** ActList is the acts that match, as far as they were read. more reads older ones. */
export interface ActList extends Acts { reading: boolean; problem: unknown; more: () => void }

const none: Acts = { list: [], next: 0 }

/** useActs reads the newest acts that match, again and again, and older ones when it is asked for. With off it reads none. */
export function useActs(f: Filters, off: boolean): ActList {
  const key = JSON.stringify(f)
  const asked = useMemo<{ query?: Query }>(() => ({}), [key]) // ages count from when they were asked for, by the clock of the node
  const ask = async (more: Query, abort?: AbortSignal): Promise<AuditReply> => {
    if (f.since || f.until) await knowTime(abort)
    asked.query ??= queryOf(f, nodeTime())
    return get<AuditReply>('/audit', { ...asked.query, ...more }, abort)
  }
  const [acts, setActs] = useState(none)
  const [problem, setProblem] = useState<unknown>()
  const [reading, setReading] = useState(true)
  const [round, setRound] = useState(0)
  useEffect(() => { setActs(none); setProblem(undefined); setReading(!off) }, [key])
  useEffect(() => {
    if (off) return
    const abort = new AbortController()
    const began = performance.now()
    const again = () => later(Math.max(live, share * (performance.now() - began)), () => setRound((r) => r + 1), abort.signal)
    ask({}, abort.signal).then((page) => {
      setActs((have) => newer(have, page))
      setProblem(undefined)
      setReading(false)
      again()
    }, (e: unknown) => {
      if (aborted(e)) return
      setProblem(e)
      setReading(false)
      if (mayPass(e)) again()
    })
    return () => abort.abort()
  }, [key, round, epoch.value])
  const more = () => {
    if (reading || acts.next === 0) return
    setReading(true)
    ask({ before: acts.next })
      .then((page) => setActs((have) => (have.next === acts.next ? older(have, page) : have)), setProblem)
      .finally(() => setReading(false))
  }
  return { ...acts, reading, problem, more }
}
