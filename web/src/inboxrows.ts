// The rows of the inbox: which of them a search finds, and what tells those of one name apart; without a document.
import type { ApprovalView, Json } from './api.ts'
import { alike, differing, longest } from './differing.ts'
import type { Item } from './inbox.ts'
import { compact, record } from './json.ts'

/** found returns the entries that have each word of a search in their title, task, tool, step, people or arguments, or in an id. */
export function found(items: Item[], search: string): Item[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return items
  return items.filter((i) => {
    const text = said(i).join('\n').toLowerCase()
    return words.every((w) => text.includes(w))
  })
}

/** said are the texts of an entry that a search looks into: what its row says is among them. */
function said(i: Item): string[] {
  const all = [i.title, i.taskName, i.id, i.task]
  if (i.kind === 'approval') return [...all, ...ofApproval(i.approval)]
  if (i.kind === 'question') return [...all, i.question.step, i.question.tool ?? '', ...named(i.question.params)]
  return [...all, i.summary.requestor ?? '', ...Object.entries(i.summary.labels ?? {}).map(([k, v]) => `${k}=${v} ${k} ${v}`), ...i.asked.flatMap(ofApproval)]
}

const ofApproval = (a: ApprovalView): string[] =>
  [a.tool ?? '', a.step ?? '', a.submitter, a.requester, a.caller ?? '', a.description ?? '', a.rationale ?? '', ...named(a.args), ...named(a.details)]

/** named are the fields of an object, each with its name. */
const named = (of: Json): string[] => Object.entries(flat(of)).map(([name, value]) => `${name} ${value}`)

/** visible is how much of a title a row shows for sure: entries that differ in it need nothing else. */
const visible = 30

/** apart returns for entries whose rows look the same what tells each from the others: an argument, a label, or else the end of the id of its task. */
export function apart(items: Item[]): ReadonlyMap<string, string> {
  const out = new Map<string, string>()
  for (const group of alike(items, (i) => `${i.kind}\n${i.title.slice(0, visible)}\n${i.taskName}`)) {
    if (group.length < 2) continue
    const all = group.map(facts)
    const name = telling(all)
    const says = name ? saying(name, all.map((f) => f[name] ?? 'not given')) : group.map((i) => `…${i.task.slice(-6)}`)
    group.forEach((i, at) => out.set(i.id, says[at] ?? ''))
  }
  return out
}

const [rationale, title] = ['rationale', 'title']

/** saying names the values of a fact, if there is room and it is no sentence. Of long values it says the parts that differ. */
function saying(name: string, values: string[]): string[] {
  const sentence = name === rationale || name === title
  const full = (value: string): string => (sentence || value.startsWith('…') ? value : `${name} ${value}`)
  const fits = (value: string): boolean => full(value).length <= longest
  return values.every(fits) ? values.map(full) : differing(values).map((v) => (fits(v) ? full(v) : v))
}

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

/** facts are what an entry says of itself. */
function facts(i: Item): Record<string, string> {
  if (i.kind === 'approval') return { ...asks(i.approval), ...(i.approval.step ? { step: i.approval.step } : {}), by: i.approval.submitter, [title]: i.title }
  if (i.kind === 'question') return { ...flat(i.question.params), step: i.question.step }
  return { ...(i.asked[0] ? asks(i.asked[0]) : {}), ...i.summary.labels, ...(i.summary.requestor ? { by: i.summary.requestor } : {}), [title]: i.title }
}

const asks = (a: ApprovalView): Record<string, string> => ({ ...flat({ [rationale]: a.rationale }), ...flat(a.details), ...flat(a.args) })

/** flat returns the fields of an object, those of objects in it too, as texts in one line. */
function flat(of: Json, within = ''): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, v] of Object.entries(record(of) ?? {})) {
    if (v === null || v === undefined || name.startsWith('$')) continue
    if (record(v)) Object.assign(out, flat(v, `${within}${name}.`))
    else out[within + name] = line(v)
  }
  return out
}

/** line returns a value in one line: the elements of a list are separated by commas. */
function line(v: Json): string {
  if (Array.isArray(v)) return v.map(line).join(', ')
  return typeof v === 'string' ? v.replace(/\s+/g, ' ') : compact(v)
}
