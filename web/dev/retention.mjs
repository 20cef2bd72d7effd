// Retention and holds of the mock node.
import { taskID } from './fixtures.mjs'

const at = (seconds) => new Date(Date.now() + seconds * 1000).toISOString()
const day = 86_400e9
const evil = '<img src=x onerror=alert(1)>\u202e'

/** retention returns what would be removed: nothing in a world without services. */
export function retention(world) {
  const rule = (n, where, more) => ({ rule: n, where, done: 7 * day, failed: 30 * day, workspaces: day, failed_workspaces: 7 * day, due_tasks: 0, due_bytes: 0, due_workspaces: 0, due_workspace_bytes: 0, ...more })
  const rest = rule(0, 'no rule', { done: 365 * day, failed: 0, failed_workspaces: 129_600e9 })
  if (world.services === 'none') return { at: at(0), rules: [rest], tasks: [], held: 0, with_family: 0 }
  return {
    at: at(0), rules: [rule(1, `label env=${evil}`, { due_tasks: 1240, due_bytes: 5_300_000, estimated: true, due_workspaces: 3, due_workspace_bytes: 700 }), rest],
    tasks: [{ id: taskID(10_020), name: `nightly ${evil}`, state: 'DONE', at: at(-900_000), rule: 1 }, { id: taskID(10_021), state: 'FAILED', at: at(-9_000_000), rule: 0 }],
    held: 1, with_family: 2, outside: 's3://records/orch',
  }
}

const all = () => [
  { task: taskID(10_021), family: taskID(10_021), reason: 'case 4711', by: 'user:bob', at: at(-90_000) },
  { task: taskID(10_025), family: taskID(10_020), reason: `${evil} audit`, by: 'user:ada', at: at(-60) },
]

const of = (world) => (world.holds ??= world.services === 'none' ? [] : all())
const ended = (world) => (world.ended ??= [{ task: taskID(10_020), family: taskID(10_020), reason: 'case 12', by: 'user:ada', at: at(-900_000), released: { by: 'user:bob', at: at(-9000), note: 'it is closed' } }])

export const holds = (world, q) => ({ holds: q.get('released') === 'true' ? ended(world) : of(world) })

/** held returns a task with the holds of its family. */
export const held = (world, view) => ({ ...view, holds: of(world).filter((h) => h.task === view.id || h.family === view.id) })

/** hold holds tasks. */
export function hold(world, body) {
  world.requests.push({ verb: 'hold', body })
  of(world).push(...body.ids.map((id) => ({ task: id, family: id, reason: body.reason, by: 'user:ada', at: at(0) })))
  return { holds: of(world) }
}

/** release ends holds. */
export function release(world, body) {
  world.requests.push({ verb: 'release', body })
  const over = of(world).filter((h) => body.ids.includes(h.task) && (!body.reason || h.reason === body.reason))
  world.holds = of(world).filter((h) => !over.includes(h))
  ended(world).unshift(...over.map((h) => ({ ...h, released: { by: 'user:ada', at: at(0), note: body.note } })))
  return { holds: over }
}
