// What requests to models cost.
import type { Spent } from './conversation.ts'

export interface CostSum {
  turns: number
  nano_usd: number
  input: number
  cache_read?: number
  cache_write?: number
  output: number
  lost?: number
  lost_nano_usd?: number
  lost_tokens?: number
}

/** CostRow is a part of the costs. One that is older has no key any more. */
export interface CostRow extends CostSum { key: string; older?: boolean }
export interface CostsReply { rows: CostRow[]; total: CostSum; budgets?: BudgetView[]; behind?: boolean }
export interface BudgetView { name: string; identity?: string; limit: Spent; spent: Spent; held?: Spent; until: string }
