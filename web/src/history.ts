// The history of one task in memory: its commits, one row per event, the bars of the timeline, and snapshots of the fold for
// the slider.
import type { Commit, Event } from './api.ts'
import { copy, emptyTask, fold, type Task } from './fold.ts'
import { text } from './json.ts'
import { Timeline } from './timeline.ts'

/** Row is one event in the list of events. */
export interface Row { rev: number; at: number; actor: string; event: Event }

/** every is the least number of commits between two snapshots. */
const every = 256

export class History {
  readonly commits: Commit[] = []
  readonly rows: Row[] = []
  readonly timeline = new Timeline()
  private readonly live = emptyTask()
  private snapshots: Task[] = []
  private distance = every

  /** rev is the newest revision. */
  get rev(): number { return this.commits.length }

  /** add appends the commits that follow; others are dropped, so that a commit that comes twice counts once. */
  add(commits: Commit[]): void {
    for (const c of commits) if (c.rev === this.rev + 1) this.append(c)
  }

  private append(c: Commit): void {
    this.commits.push(c)
    const at = Date.parse(c.at)
    for (const event of c.events) this.rows.push({ rev: c.rev, at, actor: c.actor ?? '', event })
    this.timeline.add(c)
    fold(this.live, c)
    if (c.rev % this.distance === 0) this.snapshot()
  }

  private snapshot(): void {
    this.snapshots.push(copy(this.live))
    if (this.snapshots.length < 64) return
    this.distance *= 2
    this.snapshots = this.snapshots.filter((s) => s.rev % this.distance === 0)
  }

  /** at returns the task as it was at a revision. */
  at(rev: number): Task {
    if (rev >= this.rev) return this.live
    const base = this.snapshots.findLast((s) => s.rev <= rev)
    const t = base ? copy(base) : emptyTask()
    for (let i = t.rev; i < rev; i++) fold(t, this.commits[i] as Commit)
    return t
  }

  /** timeOf returns when a revision was committed. */
  timeOf(rev: number): number { return Date.parse(this.commits[rev - 1]?.at ?? '') }
}

/** rowsUntil returns how many rows belong to revisions up to rev. */
export function rowsUntil(rows: Row[], rev: number): number {
  let [low, high] = [0, rows.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((rows[middle]?.rev ?? 0) <= rev) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * kindOf returns the kind of an event for people, as the command line names it: file.read records that the task knows the content of a file,
 * after it has read or written it.
 */
export const kindOf = (e: Event): string => (e.kind === 'file.read' ? 'file.known' : e.kind)

/** detail returns what an event says in one line, beside its kind and its step. */
export function detail(e: Event): string {
  const d = e.data
  const error = d['error'] as { message?: string; name?: string } | undefined
  const attempt = typeof d['attempt'] === 'number' && d['attempt'] > 1 ? `attempt ${d['attempt']}` : ''
  const said = text(d['message']) || text(error?.message) || text(d['reason']) || text(d['description'])
  const about = text(d['tool']) || text(d['worker']) || text(d['name']) || text(d['approver']) || text(d['by']) || text(d['child']) || text(d['path'])
  return [about, attempt, said].filter(Boolean).join(' · ')
}
