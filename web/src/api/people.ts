// What waits for people.
import type { Json, TaskState } from './task.ts'

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
  next?: string
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
export interface InboxCounts { approvals: number; questions: number; in_doubt: number; dead: number; stuck: number }
