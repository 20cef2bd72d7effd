// What the page knows about the node: its status, the counts of the inbox, and every change of a task, from one stream.
import { computed, signal } from '@preact/signals'
import type { InboxCounts, Status, Summary } from './api.ts'
import { get, signedOut } from './client.ts'
import { nodeTime, onTime } from './clock.ts'
import { learnReach } from './reach.ts'
import { stream } from './stream.ts'

export const status = signal<Status | undefined>(undefined)
export const counts = signal<InboxCounts>({ approvals: 0, questions: 0, in_doubt: 0, dead: 0, stuck: 0 })
/** away is true while there is no connection to the node. */
export const away = signal(false)
/** epoch changes when what was read before may be out of date. */
export const epoch = signal(0)
/** waiting counts what waits for people. */
export const waiting = computed(() => counts.value.approvals + counts.value.questions + counts.value.in_doubt + counts.value.dead + counts.value.stuck)
/** role is the role of the identity of the page, or '' as long as it is not known. */
export const role = computed(() => status.value?.role ?? '')
/** decides reports whether it may decide about tasks, approvals and questions. */
export const decides = computed(() => role.value === 'operator')
/** submits reports whether it may submit tasks, cancel them and speak to their agents. */
export const submits = computed(() => role.value !== '' && role.value !== 'viewer')
/** limited reports whether it sees only its own tasks, and nothing of the node that others use as well. */
export const limited = computed(() => submits.value && !decides.value)
/** now is the current time of the node, once a second, and as soon as an answer has told it. */
export const now = signal(nodeTime())
onTime(() => { if (Math.abs(nodeTime() - now.value) > 1000) now.value = nodeTime() })

type Listener = (changed: Summary[]) => void
const listeners = new Set<Listener>()
let changed: Summary[] = []

/** onTasks calls back with changed tasks, at most once a frame, until the returned function is called. */
export function onTasks(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function collect(data: string): void {
  if (changed.length === 0) requestAnimationFrame(deliver)
  changed.push(JSON.parse(data) as Summary)
}

function deliver(): void {
  const batch = changed
  changed = []
  for (const l of listeners) l(batch)
}

/** statusEvery is how often the status is read while the page can be seen, in milliseconds: no stream has its pauses and workers. */
const statusEvery = 5000

/** follow opens the stream of the node. */
export function follow(): void {
  setInterval(() => { if (!document.hidden && !away.value && !signedOut.value) void readStatus() }, statusEvery)
  setInterval(() => { now.value = nodeTime() }, 1000)
  stream('/events', (last) => ({ after: last }), {
    events: {
      task: collect,
      inbox: (data) => { counts.value = JSON.parse(data) as InboxCounts },
      reset: () => { epoch.value++ },
    },
    opened: (again, resumed) => {
      signedOut.value = false // another tab may have followed a one-time link
      away.value = false
      if (again && !resumed) epoch.value++ // a stream that goes on says with reset if something is missing
      void readStatus()
    },
    lost: () => {
      away.value = true
      void readStatus()
    },
  })
}

/** readStatus reads the status of the node. A node that is away keeps its last one. */
export async function readStatus(): Promise<void> {
  const before = status.value
  status.value = await get<Status>('/status').catch(() => before)
  if (status.value) learnReach(status.value, location.hostname)
  if (before && before.started_at !== status.value?.started_at) epoch.value++ // another process: agents, policy and servers are read again
  if (signedOut.value) away.value = false
}

const small = matchMedia('(max-width: 760px)')
/** narrow is true on small screens, where rows are higher. */
export const narrow = signal(small.matches)
small.addEventListener('change', (e) => { narrow.value = e.matches })
