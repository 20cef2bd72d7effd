import type { StepState, TaskState, TurnState } from '../api.ts'
import { words } from '../format.ts'

/** Look is the shape and the colour of a state; the word stands beside it. */
type Look = 'wait' | 'run' | 'person' | 'block' | 'good' | 'bad' | 'off'

const looks: Record<TaskState | StepState | TurnState, Look> = {
  NEEDS_ACTION: 'wait', ASSIGNED: 'wait', PLANNING: 'run', AWAITING_APPROVAL: 'person', IN_PROGRESS: 'run', BLOCKED: 'block', COMPLETED: 'run',
  DONE: 'good', FAILED: 'bad', CANCELLED: 'off',
  pending: 'wait', ready: 'wait', running: 'run', succeeded: 'good', failed: 'bad', skipped: 'off', parked: 'person', in_doubt: 'block',
  cancelled: 'off', asking: 'run', acting: 'run', answered: 'good', refused: 'off',
}

/** State shows a state of a task or a step as a shape with its word. */
export function State({ of, paused = false }: { of: string; paused?: boolean | undefined }) {
  const look = looks[of as TaskState] ?? 'wait'
  return <span class={`state ${look}`}>{of ? words(of) : 'Unreadable'}{paused ? ' · paused' : ''}</span>
}
