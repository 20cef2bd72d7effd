// What a fork would do, in the words of orch fork --dry-run.
import type { Json } from './api.ts'
import { exactly } from './json.ts'

/** ForkEffect is an effect that a step of the original had: a call of a tool, or a child task. */
export interface ForkEffect { step: string; tool?: string; child?: string; effect?: string }

/** ForkReply describes a fork. */
export interface ForkReply { id?: string; at: number; reused: string[] | null; live: string[] | null; stands_on: ForkEffect[] | null; repeats: ForkEffect[] | null; continued?: ContinuedAgent[] }

/** ContinuedAgent is an agent step that takes over the turns of the original before a turn. */
export interface ContinuedAgent { step: string; turn: number }

/** ForkLine is one line of a description: what the fork does with which steps, and what that means. */
export interface ForkLine { what: string; names: string[]; means: string }

/** forkLines describes a fork. A line without names is left out. */
export function forkLines(r: ForkReply): ForkLine[] {
  const all: ForkLine[] = [
    { what: 'reuses', names: r.reused ?? [], means: 'takes the recorded results; these steps do not run' },
    { what: 'runs live', names: r.live ?? [], means: 'these steps run, and ask for approvals as in any task' },
    { what: 'continues', names: (r.continued ?? []).map((a) => `${a.step} from turn ${a.turn}`), means: 'these agents take over the turns before, and do not pay for them again' },
    { what: 'stands on', names: (r.stands_on ?? []).map(effectName), means: 'effects of reused steps, which the fork assumes to hold still' },
    { what: 'repeats', names: (r.repeats ?? []).map(effectName), means: 'effects that have happened and would happen again' },
  ]
  return all.filter((l) => l.names.length > 0)
}

const effectName = (e: ForkEffect): string => (e.child ? `${e.step} (task ${e.child})` : `${e.step} (${e.tool}, ${e.effect})`)

/** typedLike reads what was typed for an input: a text if the input is one, else JSON if it is valid. */
export function typedLike(was: Json, typed: string): Json {
  return typeof was === 'string' ? typed : exactly(typed) ?? typed
}
