// What the page of costs asks for, and says; without a document.
import type { BudgetView, CostSum, Spent } from './api.ts'
import { count, dollars, plural } from './format.ts'
import { unknownIn, type Wrong } from './refused.ts'

export const kinds = ['day', 'model', 'agent', 'identity', 'task', 'label'] as const
export type Kind = (typeof kinds)[number]
export const periods = ['24h', '7d', '30d', '90d'] as const

/** Choice is what the costs are itemized by, and since when. label is the key of a label. */
export interface Choice { by: Kind; label: string; since: string }

/** choiceOf reads the choice of an address. */
export function choiceOf(q: URLSearchParams): Choice {
  const by = kinds.find((k) => k === q.get('by')) ?? 'day'
  return { by, label: q.get('label') ?? '', since: periods.find((p) => p === q.get('since')) ?? '7d' }
}

/** wrongOf returns what is wrong with the choice of an address. */
export const wrongOf = (q: URLSearchParams): Wrong[] => unknownIn(q, { by: kinds, since: periods })

/** byOf returns the parameter by, or '' while the key of the label is missing. */
export const byOf = (c: Choice): string => (c.by !== 'label' ? c.by : c.label && `label:${c.label}`)

const day = 24 * 3600_000

/** firstDay returns the first day of a period that ends at a time. */
export function firstDay(since: string, now: number): string {
  const ms = since === '24h' ? day : Number.parseInt(since, 10) * day
  return new Date(Math.floor((now - ms) / day) * day).toISOString()
}

/** requested counts the tokens of requests, with those from the cache. */
export const requested = (s: CostSum): number => s.input + (s.cache_read ?? 0) + (s.cache_write ?? 0)

/** lostText says what answers that were lost can have cost at most, or ''. */
export const lostText = (s: CostSum): string => (s.lost ? `${plural(s.lost, 'answer')}, at most ${dollars(s.lost_nano_usd ?? 0)}` : '')

/** part returns which part of a budget is used, from 0 to 1. */
export function part(b: BudgetView): number {
  const share = (used = 0, limit = 0) => (limit ? used / limit : 0)
  return Math.min(1, Math.max(share(b.spent.nano_usd, b.limit.nano_usd), share(b.spent.tokens, b.limit.tokens)))
}

/** amount says what was spent, or may be. */
export function amount(s: Spent | undefined): string {
  const parts = [s?.nano_usd ? dollars(s.nano_usd) : '', s?.tokens ? `${count(s.tokens)} tokens` : '']
  return parts.filter(Boolean).join(', ') || dollars(0)
}
