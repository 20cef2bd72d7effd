// Retention and holds: the JSON types of the HTTP API, as package api defines them, and what the page says of them.
import type { TaskState } from './api.ts'
import { nanoseconds, plural } from './format.ts'

/** RetentionReply says what retention would remove now. */
export interface RetentionReply { at: string; rules: RetentionRule[]; tasks: RetentionTask[]; held: number; with_family: number; outside?: string }
export interface RetentionRule {
  rule: number
  where: string
  done: number
  failed: number
  workspaces: number
  failed_workspaces: number
  due_tasks: number
  due_bytes: number
  estimated?: boolean
  due_workspaces: number
  due_workspace_bytes: number
}
export interface RetentionTask { id: string; name?: string; state: TaskState; at: string; rule: number }

export interface HoldsReply { holds: Hold[]; next?: string }
export interface Hold { task: string; family: string; reason: string; by: string; at: string; released?: { by: string; at: string; note?: string } }

const day = 24 * 3600e9

/** keptFor says how long something stays, of nanoseconds. */
export function keptFor(ns: number): string {
  if (ns === 0) return 'for ever'
  return ns % day === 0 ? plural(ns / day, 'day') : nanoseconds(ns)
}

/** isDue reports whether retention would remove anything now. */
export const isDue = (r: RetentionReply): boolean => r.rules.some((rule) => rule.due_tasks + rule.due_workspaces > 0)
