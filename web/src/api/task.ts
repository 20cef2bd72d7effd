// Tasks: lists, views, histories, files.
import type { QuestionView } from './people.ts'
import type { Hold } from '../retention.ts'

export type TaskState =
  | 'NEEDS_ACTION' | 'ASSIGNED' | 'PLANNING' | 'AWAITING_APPROVAL' | 'IN_PROGRESS' | 'BLOCKED' | 'COMPLETED' | 'DONE' | 'FAILED' | 'CANCELLED'

export type StepState = 'pending' | 'ready' | 'running' | 'succeeded' | 'failed' | 'skipped' | 'parked' | 'in_doubt' | 'cancelled'
export type Json = unknown
export type Labels = Record<string, string>
export interface FaultView { name: string; message: string; reason?: string; field?: string; hint?: string }
export interface Progress { done: number; total?: number; message?: string }

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
export interface Undone { task: string; done: boolean; restored: string[]; removed: string[]; conflicts: string[]; later?: ChangedLater[] }

/** ChangedLater is a file that was changed after what an undo puts back. */
export interface ChangedLater { path: string; lost: boolean; by: { task?: string; step?: string; who?: string; at?: string }[]; diff?: string }

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
export interface Cause { kind: string; step?: string; sentence: string; next?: string; until?: string; approval?: string; task?: string }
export interface ExplainReply { id: string; state: TaskState; causes: Cause[] | null; continued?: Continued[] }
/** Continued is a retry or a fork of the task from. */
export interface Continued { task: string; from: string; how: string; name: string; state: TaskState; created_at: string }
export interface Trace { trace: string; spans: number; open?: number; next?: number }
export interface SubmitReply { id: string; state: TaskState; existing?: boolean; reused?: number }

/** DiffReply lists what differs between two tasks. A side without a value lacks it. */
export interface DiffReply { a: string; b: string; entries: DiffEntry[] | null; omitted?: number; same: number; different: number }

export interface DiffEntry { part: string; path: string; a?: Json; b?: Json }
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
