// An act on many entries to which the node has not answered, so that it is not known what it has done. It outlives a new login, in this tab.
import { signal } from '@preact/signals'
import { approvalNow, changedSet, doAll, far, look, taskNow, type Act, type Outcome } from './bulk.ts'
import { Fault } from './client.ts'
import { draft, keepDraft } from './drafts.ts'

/** OpenAct is such an act. titles are those of its first entries. */
export interface OpenAct { verb: string; act: Act; ids: string[]; titles: string[]; digest: string; reason: string; key: string }

/** Learned is what became of it. left is how many entries are as they were before. */
export interface Learned { text: string; results: ReadonlyMap<string, Outcome>; left: number }

/** told is of how many entries it is told what became of each. */
export const told = 200

const name = 'openact'

/** openAct is the act to which the node has not answered, until somebody has read what became of it. */
export const openAct = signal<OpenAct | undefined>(kept())
export const learned = signal<Learned | undefined>(undefined)

function kept(): OpenAct | undefined {
  if (typeof sessionStorage === 'undefined') return undefined
  const text = draft(name)
  return text ? (JSON.parse(text) as OpenAct) : undefined
}

/** bulkReason names the reason of an act on many. */
export const bulkReason = (verb: string): string => `bulk/${verb}`

/** beginAct keeps an act in mind before it is sent. */
export function beginAct(a: OpenAct): void {
  forgetAct()
  keepDraft(name, JSON.stringify(a))
}

/** loseAct notes that the node has not answered to an act. */
export function loseAct(a: OpenAct): void { openAct.value = a }

/** forgetAct is for an act of which everything is known and read. */
export function forgetAct(): void {
  keepDraft(name, '')
  openAct.value = learned.value = undefined
}

/** learn notes what became of the act. Its reason is used up if no entry is left. */
export function learn(a: OpenAct, is: Learned): void {
  if (is.left === 0) keepDraft(bulkReason(a.verb), '')
  learned.value = is
}

/** whatBecame asks the node what became of an act: by its key, or, if the node has been restarted, by how its entries stand now. It returns undefined while the act goes on. */
export async function whatBecame(a: OpenAct, abort: AbortSignal): Promise<Learned | undefined> {
  try {
    if (!(await far(a.key, abort)).ended) return undefined
    const results = await doAll(a.act, a.ids, a.digest, a.reason, a.key, () => {})
    return { text: happened(results), results, left: 0 }
  } catch (e) {
    if (!changedSet(e) && !(e instanceof Fault && e.status === 404)) throw e
  }
  return standing(a)
}

/** standing compares the entries of an act with how they stand now. A task stays failed when it is retried or redriven: what continues it tells. */
async function standing(a: OpenAct): Promise<Learned> {
  const tells = a.act === 'approve' || a.act === 'cancel'
  const left = tells ? (await look(a.act, a.ids)).ids : new Set<string>()
  const results = new Map<string, Outcome>()
  for (const id of a.ids) {
    const text = left.has(id) ? 'not done' : results.size < told ? await (a.act === 'approve' ? approvalNow(id) : taskNow(id)) : 'it has changed'
    results.set(id, { text, failed: left.has(id) })
  }
  return { text: tells ? compared(a.ids.length, left.size, same(a.ids.filter((id) => !left.has(id)).map((id) => results.get(id)?.text ?? ''))) : 'The node has been restarted. Each entry says how it stands.', results, left: left.size }
}

/** same returns the text that all have, '' if they differ. */
const same = (texts: string[]): string => (texts.every((t) => t === texts[0]) ? texts[0] ?? '' : '')

/** compared says how many of the entries of an act have changed since, and how, if that is the same for all. */
export function compared(all: number, left: number, how = ''): string {
  if (left === all) return 'The node has done nothing of it. Do it again if it is still wanted.'
  const changed = all - left
  const each = `since${changed === 1 ? '' : ', each in the same way'}: ${how}`
  if (how && left === 0) return `${all === 1 ? 'The entry has' : `All ${all} entries have`} changed ${each}.`
  if (how) return `${changed} of ${all} entries ${changed === 1 ? 'has' : 'have'} changed ${each}; ${left} ${left === 1 ? 'is as it was' : 'are as they were'}.`
  if (left === 0) return `${all === 1 ? 'The entry has' : `All ${all} entries have`} changed since, and say${all === 1 ? 's' : ''} how.`
  return `${changed} of ${all} entries ${changed === 1 ? 'has' : 'have'} changed since, and say${changed === 1 ? 's' : ''} how; ${left} ${left === 1 ? 'is as it was' : 'are as they were'}.`
}

/** happened counts what was done, what was refused, and of what that is not known. */
export function happened(results: ReadonlyMap<string, Outcome>): string {
  const all = [...results.values()]
  const unknown = all.filter((r) => r.unknown).length
  const refused = all.filter((r) => r.failed && !r.unknown).length
  const parts = [`${all.length - refused - unknown} done`, refused ? `${refused} refused` : '', unknown ? `of ${unknown} it is not known` : '']
  return `This has happened: ${parts.filter(Boolean).join(', ')}.`
}
