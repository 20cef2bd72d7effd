// The rows of the inbox: which of them a search finds, and what tells those of one name apart; without a document.
import type { Json } from './api.ts'
import type { Item } from './inbox.ts'
import { pretty, record } from './json.ts'

/** found returns the entries that have each word of a search in their title, task, tool, step or people, or in an id. */
export function found(items: Item[], search: string): Item[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return items
  return items.filter((i) => {
    const text = said(i).join('\n').toLowerCase()
    return words.every((w) => text.includes(w))
  })
}

/** said are the texts of an entry that a search looks into. */
function said(i: Item): string[] {
  const all = [i.title, i.taskName, i.id, i.task]
  if (i.kind === 'approval') return [...all, i.approval.tool ?? '', i.approval.step ?? '', i.approval.submitter, i.approval.requester, i.approval.caller ?? '']
  if (i.kind === 'question') return [...all, i.question.step, i.question.tool ?? '']
  return [...all, i.summary.requestor ?? '', ...Object.entries(i.summary.labels ?? {}).map(([k, v]) => `${k}=${v}`)]
}

/** longest bounds what a row says beside its name. */
const longest = 60

/** apart returns for entries with the same title and task name what tells each from the others: an argument, a label, or else the end of the id of its task. */
export function apart(items: Item[]): ReadonlyMap<string, string> {
  const alike = new Map<string, Item[]>()
  for (const i of items) {
    const name = `${i.kind}\n${i.title}\n${i.taskName}`
    const group = alike.get(name)
    if (group) group.push(i)
    else alike.set(name, [i])
  }
  const out = new Map<string, string>()
  for (const group of alike.values()) {
    if (group.length < 2) continue
    const all = group.map(facts)
    const name = telling(all)
    group.forEach((i, at) => out.set(i.id, name ? saying(name, all[at]?.[name]) : `…${i.task.slice(-6)}`))
  }
  return out
}

const rationale = 'rationale'

/** saying names a fact, unless it is a sentence. */
const saying = (name: string, value = 'not given'): string => (name === rationale ? value : `${name} ${value}`).slice(0, longest)

/** telling returns the fact that has the most values among entries, '' if each is the same for all. */
function telling(all: Record<string, string>[]): string {
  let best = ''
  let most = 1
  for (const name of new Set(all.flatMap((f) => Object.keys(f)))) {
    const values = new Set(all.map((f) => f[name])).size
    if (values > most) [best, most] = [name, values]
  }
  return best
}

/** facts are what an entry says of itself in short values. */
function facts(i: Item): Record<string, string> {
  if (i.kind === 'approval') return { ...flat({ [rationale]: i.approval.rationale }), ...flat(i.approval.details), ...flat(i.approval.args), ...(i.approval.step ? { step: i.approval.step } : {}), by: i.approval.submitter }
  if (i.kind === 'question') return { ...flat(i.question.params), step: i.question.step }
  return { ...i.summary.labels, ...(i.summary.requestor ? { by: i.summary.requestor } : {}) }
}

/** flat returns the fields of an object that are texts, numbers or flags. */
function flat(of: Json): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, v] of Object.entries(record(of) ?? {})) {
    const plain = v !== null && v !== undefined && record(v) === undefined && !Array.isArray(v)
    if (plain && !name.startsWith('$')) out[name] = (typeof v === 'string' ? v : pretty(v)).replace(/\s+/g, ' ')
  }
  return out
}
