// The node, and what it knows of workers, agents, servers, policy and acts.
import type { FaultView, TaskState } from './task.ts'

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
  traces?: TracesView
  memory_mib: number
  data_dir?: string
  server?: string
  storage?: { used: number; max_store?: number; free: number; min_free: number }
}

/** TracesView says where the spans of tasks go, and the URL of a trace with {trace} in place of its id. */
export interface TracesView { to?: string; view?: string; error?: string; failing_since?: string; oldest?: string }
export interface WorkerView { name: string; queues: string[] | null; running: number; seen_at: string; silent?: boolean }
export interface PauseView { kind: 'node' | 'queue' | 'tool'; name?: string; reason?: string; by?: string; at: string }

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
