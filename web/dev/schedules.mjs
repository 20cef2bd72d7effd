// The schedules of the mock node.
import { taskID } from './fixtures.mjs'

const at = (seconds) => new Date(Date.now() + seconds * 1000).toISOString()
const done = taskID(10_020)

const all = () => [
  {
    name: 'empty', spec: { calendar: [{ weekday: 'mon', hour: '9' }] }, requestor: 'user:ada', updated_at: at(-60), next: [], running: [], buffered: [], outcomes: [],
    note: 'it is <b>over</b>',
  },
  {
    name: 'nightly', spec: { cron: ['30 2 * * *'], timezone: 'Europe/Berlin', jitter: '10m0s' }, requestor: 'user:ada', updated_at: at(-86_400), next: [at(3_600), at(90_000)], due: at(3_900),
    failures: 2, running: [{ at: at(-3), task: done, since: at(-3) }], buffered: [{ at: at(-1), since: at(-1) }], note: '<img src=x onerror=alert(1)> the report',
    outcomes: [
      { at: at(-3), task: done, since: at(-3), result: 'started' },
      { at: at(-90), task: taskID(10_021), since: at(-90), result: 'started', end: 'FAILED', origin: 'trigger', by: 'user:bob' },
      { at: at(-200), since: at(-100), result: 'missed', count: 7, reason: 'the node was not running' },
      { at: at(-900), since: at(-900), result: 'failed', reason: 'INVALID_PLAN: there is no tool <i>X</i>' },
    ],
  },
  { name: 'sync', spec: { interval: [{ every: '15m0s' }], overlap: 'buffer_one' }, requestor: 'user:bob', updated_at: at(-10), next: [], running: [], buffered: [], outcomes: [], paused: { by: 'user:ada', at: at(-5), note: 'the disk is full' } },
]

const of = (world) => (world.schedules ??= world.services === 'none' ? [] : all())

export const schedules = (world) => ({ schedules: of(world) })

/** steer does to a schedule what the page asks for. */
export function steer(world, name, act) {
  world.requests.push({ verb: act, schedule: name })
  const s = of(world).find((one) => one.name === name)
  if (act === 'trigger' && name === 'nightly') throw Object.assign(new Error(`the overlap policy skip permits no further task: task ${done} was still running`), { status: 409, code: 'CONFLICT' })
  if (act === 'delete') world.schedules = of(world).filter((one) => one !== s)
  if (act === 'pause') s.paused = { by: 'user:ada', at: at(0) }
  if (act === 'resume') delete s.paused
  return { schedule: s, task: act === 'trigger' ? done : undefined }
}
