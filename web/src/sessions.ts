// What a session of an MCP client did; without a document.
import type { Act, HistoryReply, Summary } from './api.ts'
import { record } from './json.ts'

/** callsOf returns the tasks of a session without the session itself and children, the newest first. */
export const callsOf = (session: string, tasks: Summary[]): Summary[] => tasks.filter((t) => t.id !== session && !t.parent)

const maxTools = 3

/** toolsOf counts the calls by tool, the most frequent first. */
export function toolsOf(calls: Summary[]): string {
  const counts = new Map<string, number>()
  for (const c of calls) counts.set(c.name, (counts.get(c.name) ?? 0) + 1)
  const all = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
  const named = all.slice(0, maxTools).map(([name, n]) => (n > 1 ? `${name} ×${n}` : name))
  return named.join(', ') + (all.length > maxTools ? ', …' : '')
}

/** Undoing is the newest undo of a session. calls is how many of its calls were undone apart, 0 if it was undone as a whole. */
export interface Undoing { at: string; actor: string; task: string; calls: number }

/** undoOf returns the newest undo of a session or of its calls, by the acts of the audit stream. What it did after that is not undone. */
export function undoOf(session: string, calls: Summary[], acts: Act[]): Undoing | undefined {
  const own = new Set(calls.map((c) => c.id))
  const of = acts.filter((a) => a.target === session || own.has(a.target ?? '')).sort((a, b) => a.n - b.n)
  const newest = of.findLast((a) => a.target === session) ?? of.at(-1)
  if (!newest) return undefined
  const apart = newest.target === session ? 0 : new Set(of.map((a) => a.target)).size
  return { at: newest.at, actor: newest.actor, task: newest.task?.id ?? '', calls: apart }
}

const hows: Record<string, string> = { A: 'new', M: 'changed', D: 'removed', T: 'changed' }

/** changedFiles returns the files that a call has changed, as its history says. */
export function changedFiles(h: HistoryReply | undefined): { path: string; how: string }[] {
  return (h?.commits ?? []).flatMap((c) => c.events).filter((e) => e.kind === 'file.changed').map((e) => {
    const data = record(e.data)
    return { path: String(data?.['path'] ?? ''), how: hows[String(data?.['how'] ?? '')] ?? 'changed' }
  })
}
