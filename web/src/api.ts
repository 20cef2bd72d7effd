// The JSON types of the HTTP API, as package api defines them. Times are RFC 3339, durations are nanoseconds.
import type { Hold } from './retention.ts'

export type TaskState =
  | 'NEEDS_ACTION' | 'ASSIGNED' | 'PLANNING' | 'AWAITING_APPROVAL' | 'IN_PROGRESS' | 'BLOCKED' | 'COMPLETED' | 'DONE' | 'FAILED' | 'CANCELLED'
export type StepState = 'pending' | 'ready' | 'running' | 'succeeded' | 'failed' | 'skipped' | 'parked' | 'in_doubt' | 'cancelled'
export type Json = unknown
export type Labels = Record<string, string>

export interface FaultView { name: string; message: string; reason?: string; field?: string; hint?: string }

export interface Progress { done: number; total?: number; message?: string }

export interface Status {
  version: string
  identity?: string
  role?: string
  ready: boolean
  durability: string
  syncing?: string
  root?: string
  open: number
  finished: number
  queued: Record<string, number> | null
  running: number
  workers: WorkerView[] | null
  paused: PauseView[] | null
  store: string
  refusing?: { code: string; message: string; hint?: string; since?: string }
  started_at: string
  memory_mib: number
  storage?: { used: number; max_store?: number; free: number; min_free: number }
}

export interface WorkerView { name: string; queues: string[] | null; running: number; seen_at: string; silent?: boolean }
export interface PauseView { kind: 'node' | 'queue' | 'tool'; name?: string; reason?: string; by?: string; at: string }

export interface Summary {
  id: string
  name: string
  state: TaskState
  block?: string
  paused?: boolean
  priority?: string
  labels?: Labels
  parent?: string
  requestor?: string
  via?: string
  session?: string
  reason?: string
  created_at?: string
  updated_at: string
  unreadable?: string
  archived?: boolean
}

/** Undone is the result of an undo; without done, its task goes on. */
export interface Undone { task: string; done: boolean; restored: string[]; removed: string[]; conflicts: string[] }

export interface ListReply { tasks: Summary[] | null; next?: string; left?: number }

export interface StepView {
  key: string
  kind: string
  state: StepState
  tool?: string
  title?: string
  attempt?: number
  tries?: number
  rounds?: number
  lost?: number
  worker?: string
  since?: string
  due?: string
  signal?: string
  approval?: string
  child?: string
  duration?: number
  progress?: Progress
  output?: Json
  error?: FaultView
  reason?: string
}

export interface TaskView {
  id: string
  name: string
  summary?: string
  state: TaskState
  reason?: string
  block?: string
  paused?: boolean
  labels?: Labels
  priority: string
  queue?: string
  parent?: string
  parent_step?: string
  agent?: string
  fork_of?: string
  fork_at?: number
  retry_of?: string
  requestor?: string
  session?: string
  root?: string
  depends_on?: string[]
  created_at: string
  updated_at: string
  ended_at?: string
  deadline?: string
  inputs?: Json
  steps: StepView[] | null
  questions?: QuestionView[]
  checkpoints?: { id: string; name: string; at: string }[]
  output?: Json
  error?: FaultView
  rev: number
  archived?: boolean
  holds?: Hold[]
}

export interface Event { kind: string; data: EventData }
export type EventData = Record<string, Json>

export interface Commit {
  seq: number
  rev: number
  at: string
  actor?: string
  cause?: string
  hash: string
  prev?: string
  events: Event[]
}

export interface HistoryReply { commits: Commit[] | null; next?: number }

export interface Cause { kind: string; step?: string; sentence: string; next?: string; approval?: string; task?: string }
export interface ExplainReply { id: string; state: TaskState; causes: Cause[] | null }

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

export interface ApprovalView {
  id: string
  task: string
  task_name: string
  step?: string
  status: 'pending' | 'granted' | 'rejected' | 'expired' | 'revoked'
  type: string
  tool?: string
  args?: Json
  args_sha256?: string
  scopes?: string[]
  offers?: string[]
  lasting?: string[]
  description: string
  rationale?: string
  details?: Json
  calls?: Json
  priority: string
  risk?: string
  requester: string
  submitter: string
  caller?: string
  requested_at: string
  expires_at: string
  on_expiry: string
  quorum?: number
  votes?: string[]
  not_by?: string[]
  from?: string[]
  form?: Json
  approver?: string
  decided_at?: string
  reason?: string
  disposition?: string
  task_state: TaskState
  task_rev?: number
}

export interface ApprovalsReply { approvals: ApprovalView[] | null; omitted?: number; unread?: number }

export interface QuestionView {
  id: string
  task: string
  task_name: string
  step: string
  tool?: string
  key: string
  kind: 'elicitation' | 'sampling' | 'roots'
  status: 'open' | 'answered' | 'expired'
  params: Json
  asked_at: string
  expires_at: string
  answered_by?: string
  action?: string
  reason?: string
  closed_at?: string
}

export interface QuestionsReply { questions: QuestionView[] | null; omitted?: number; unread?: number }

export interface SubmitReply { id: string; state: TaskState; existing?: boolean; reused?: number }

export interface QueuedTask {
  id: string
  type?: string
  assigned_to?: string
  priority: string
  status: string
  state: TaskState
  name: string
  reason?: string
  queue?: string
  paused?: boolean
  created_at: string
  depends_on?: string[]
}

export interface QueueReply {
  tasks: QueuedTask[] | null
  stats: { total: number; pending: number; assigned: number; in_progress: number; blocked: number; wait: number; oldest?: string }
}

export interface InboxCounts { approvals: number; questions: number; in_doubt: number; dead: number }

/** DiffReply lists what differs between two tasks. A side without a value lacks it. */
export interface DiffReply { a: string; b: string; entries: DiffEntry[] | null; omitted?: number; same: number; different: number }
export interface DiffEntry { part: string; path: string; a?: Json; b?: Json }

export interface PolicyView {
  file?: string
  text?: string
  sha256?: string
  changed?: boolean
  default: string
  rules: PolicyRule[] | null
  read_only?: boolean
  tools: string[] | null
}
export interface PolicyRule { name: string; action: string; line: number; reason?: string; criteria: Record<string, string[]> | null; examples?: number }
export interface PolicyVerdict { action: string; rule?: string; reason?: string }

export interface ExplainedCall {
  action: string
  effect: string
  file: PolicyVerdict
  matches: { rule: string; action: string; line: number; unsure?: boolean }[] | null
  approval?: { rule: string; reason: string; field?: string; instead?: string; type: string; risk: string; scopes?: string[] }
  refused?: FaultView
  announces?: boolean
}

export interface BacktestReport {
  rules: number
  examples: number
  tasks: number
  calls: number
  unjudged: number
  changes: { from: string; to: string; calls: number }[] | null
  changed: ChangedCall[] | null
  omitted?: number
  truncated?: boolean
}
export interface ChangedCall { task: string; step: string; tool: string; agent?: string; at: string; before: PolicyVerdict; after: PolicyVerdict }

export interface AgentsReply { agents: AgentView[] | null; omitted?: number }
export interface AgentView {
  id: string
  name: string
  type: string
  description?: string
  capabilities: string[] | null
  status: string
  problem?: string
  last_seen?: string
  calls: { task: string; step: string; since?: string; until?: string; ending?: boolean }[] | null
  max_tasks: number
  messages: number
  completed: number
  failed: number
  busy?: number
  for?: string
}

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

export interface ServersReply { servers: ServerView[] | null; disabled?: boolean }
export interface ServerView {
  name: string
  description?: string
  transport: string
  source: string
  status: string
  enabled: boolean
  breaker: string
  failures?: number
  last_error?: string
  checked_at?: string
  tools: number
  blocked: number
  calls: number
  errors: number
  latency?: number
}

export interface ServerToolsReply { tools: ServerTool[] | null }
export interface ServerTool {
  tool: string
  name?: string
  effect?: string
  description?: string
  status: string
  why?: string
  sha256: string
  diff?: string
  accepted_at?: string
  accepted_by?: string
}

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

export type ActOutcome = 'done' | 'refused' | 'failed' | 'unknown'
/** AuditReply is a page of acts, the newest last. */
export interface AuditReply { acts: Act[]; next?: number }
export interface Act {
  n: number
  at: string
  ended_at?: string
  actor: string
  credential?: string
  face: string
  source?: string
  act: string
  target?: string
  params?: Record<string, string>
  outcome: ActOutcome
  error?: { code: string; reason?: string; field?: string; message?: string }
  task?: { id: string; rev?: number; hash?: string }
  count?: number
  since?: string
}

export interface FilesReply { task: string; dir: string; path?: string; files: FileView[] | null; next?: string }

export interface FileView {
  path: string
  kind: 'file' | 'folder' | 'link' | 'other'
  size?: number
  modified: string
  target?: string
  closed?: string
}

export interface FileReply {
  task: string
  path: string
  size: number
  modified: string
  offset: number
  next?: number
  binary?: boolean
  text?: string
  data?: string
  redacted?: number
}

export interface ValueReply {
  ref: string
  size: number
  offset: number
  next?: number
  text: string
}
