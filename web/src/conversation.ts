// The conversation of an agent step, as the page has read it so far.
import type { ConversationReply, TurnView } from './api.ts'
import { aborted, get } from './client.ts'

/** Talk is the newest answer of the node, which has the state of the agent, and all turns that were read, in order. */
export interface Talk { head: ConversationReply; turns: TurnView[] }

const pageSize = 20
/** readAfter is how long changes are collected before the turns are read, in milliseconds. */
const readAfter = 120

/** merge adds turns; a turn that comes again replaces the older one. */
export function merge(known: TurnView[], more: TurnView[]): TurnView[] {
  return [...new Map([...known, ...more].map((t) => [t.turn, t])).values()].sort((a, b) => a.turn - b.turn)
}

/** unsettled returns the first turn that may still change, or the one after the last. */
export function unsettled(turns: TurnView[]): number {
  const open = turns.find((t) => t.state === 'asking' || t.state === 'acting')
  return open?.turn ?? (turns.at(-1)?.turn ?? 0) + 1
}

/** Reader reads the conversation of one step at one revision; 0 is the newest, which goes on. */
export class Reader {
  private turns: TurnView[] = []
  private readonly abort = new AbortController()
  private busy = false
  private again = false

  constructor(private readonly path: string, private readonly rev: number, private readonly show: (talk: Talk) => void, private readonly fail: (problem: unknown) => void) {}

  /** refresh reads what has changed. Calls during a refresh lead to one more. */
  refresh(): void {
    this.again = true
    if (!this.busy) void this.run()
  }

  /** earlier reads the turns before the first one. */
  earlier(): Promise<void> {
    const first = this.turns[0]?.turn ?? 1
    const from = Math.max(1, first - pageSize)
    return this.caught(() => this.read(from, first))
  }

  /** whole reads one turn with more of its texts. */
  whole(turn: number): Promise<void> { return this.caught(() => this.read(turn, turn + 1)) }

  stop(): void { this.abort.abort() }

  private async run(): Promise<void> {
    this.busy = true
    while (this.again && !this.abort.signal.aborted) {
      await new Promise((done) => setTimeout(done, readAfter))
      this.again = false
      if (!this.abort.signal.aborted) await this.caught(() => this.read(this.turns.length ? unsettled(this.turns) : -pageSize, Infinity))
    }
    this.busy = false
  }

  private async caught(work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.fail(undefined)
    } catch (e) {
      if (!aborted(e)) this.fail(e)
    }
  }

  /** read reads the turns from one on and before another, also if the node returns fewer at a time. */
  private async read(from: number, before: number): Promise<void> {
    for (let next = from; next !== 0 && next < before;) {
      const limit = Math.min(pageSize, before - Math.max(next, 1))
      const head = await get<ConversationReply>(this.path, { rev: this.rev || undefined, from: next, limit: next < 0 ? pageSize : limit }, this.abort.signal)
      this.turns = merge(this.turns, head.turns ?? [])
      this.show({ head, turns: this.turns })
      next = head.next ?? 0
    }
  }
}
