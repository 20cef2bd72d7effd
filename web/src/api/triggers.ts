// What starts tasks, and what hears of them: schedules, hooks, destinations.
import type { Json, Labels } from './task.ts'

export interface SchedulesReply { schedules: ScheduleView[] }

export interface ScheduleSpec {
  cron?: string[]
  interval?: { every: string; offset?: string }[]
  calendar?: Record<string, string>[]
  timezone?: string
  overlap?: string
  jitter?: string
}

export interface Firing { at: string; origin?: string; by?: string; task?: string; since: string }
export interface Outcome extends Firing { result: string; count?: number; reason?: string; end?: string }

export interface ScheduleView {
  name: string
  spec: ScheduleSpec
  note?: string
  requestor: string
  updated_at: string
  paused?: PausedBy
  next: string[]
  due?: string
  failures?: number
  running: Firing[]
  buffered: Firing[]
  outcomes: Outcome[]
}

export interface SteerScheduleReply { schedule: ScheduleView; task?: string }
export interface PausedBy { by: string; at: string; note?: string }
export interface HooksReply { hooks: HookView[] }
export type HookResult = 'accepted' | 'duplicate' | 'filtered' | 'refused' | 'rejected' | 'limited' | 'failed'
export interface HookOutcome { at: string; delivery?: string; result: HookResult; event?: string; reason?: string; task?: string }
export interface HookSignal { task: string; name: string; data?: Json }

export interface HookView {
  name: string
  url?: string
  definition: { provider: string; when?: string; plan?: Json; inputs?: Json; signal?: HookSignal; headers?: string[]; note?: string }
  plan_name?: string
  requestor: string
  updated_at: string
  paused?: PausedBy
  has_secret: boolean
  previous_until?: string
  counts: Partial<Record<HookResult, number>>
  last_rejected?: HookOutcome
  last_refused?: HookOutcome
  deliveries: HookOutcome[]
}

export interface TestHookReply extends HookOutcome { inputs?: Json; signal?: HookSignal }
export interface DestinationsReply { destinations: DestinationView[] }
export interface DeliveryAttempt { at: string; status?: number; error?: string }
export interface DeliveryView { id: string; type: string; task: string; at: string; attempts: number; next_at?: string; last?: DeliveryAttempt }

export interface DestinationView {
  name: string
  definition: { url: string; events?: string[]; labels?: Labels; when?: string; note?: string }
  requestor: string
  updated_at: string
  paused?: PausedBy
  has_secret: boolean
  previous_until?: string
  delivered: number
  pending: number
  dead: number
  full?: boolean
  oldest_pending?: string
  last_delivered?: string
  last_failure?: DeliveryAttempt
  pending_deliveries?: DeliveryView[]
  dead_deliveries?: DeliveryView[]
  tested?: DeliveryAttempt
}
