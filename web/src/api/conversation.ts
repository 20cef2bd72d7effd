// What agent steps and their models say.
import type { FaultView, StepState } from './task.ts'

export interface Spent { nano_usd?: number; tokens?: number; calls?: number }
export type TurnState = 'asking' | 'acting' | 'answered' | 'failed' | 'refused'

/** ConversationReply is a page of the turns of an agent step. */
export interface ConversationReply {
  id: string
  step: string
  rev: number
  state: StepState
  reason?: string
  reused_from?: string
  error?: FaultView
  models: string[] | null
  instructions?: string
  prompt: string
  tools: string[] | null
  limits: Spent & { max_turns: number; max_tokens: number; until?: string; on_exceeded?: string; context?: { compact_at: number; keep?: number } }
  used: Spent
  lost?: Spent
  approval?: string
  reserved?: Spent
  unheard?: SaidView[]
  waits?: boolean
  total: number
  turns: TurnView[] | null
  next?: number
}

/** SaidView is what a person says to an agent. */
export interface SaidView { by: string; text: string }

export interface TurnView {
  turn: number
  state: TurnState
  asks: string
  attempt?: number
  reused_from?: string
  differs?: string[]
  model?: string
  stop?: string
  added?: string
  heard?: SaidView[]
  summarizes?: number
  final?: boolean
  text?: string
  calls?: TurnCall[]
  usage?: { input: number; cache_read?: number; cache_write?: number; output: number }
  estimated?: boolean
  nano_usd?: number
  charged?: Spent
  reserved?: Spent
  asked_at?: string
  duration?: number
  due?: string
  error?: FaultView
}

export interface TurnCall {
  step: string
  tool: string
  args: string
  state: StepState
  result?: string
  failed?: boolean
  recorded?: boolean
  error?: FaultView
  duration?: number
  approval?: string
  child?: string
}
