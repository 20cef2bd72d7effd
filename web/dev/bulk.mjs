// Acts on many tasks of the mock node, as POST /tasks:bulk does them.
import { createHash } from 'node:crypto'

const over = new Set(['DONE', 'FAILED', 'CANCELLED'])

/** bulk shows the set of a request, or acts on it if it is still that one. */
export function bulk(world, { act, where, dry_run: dry, set, reason, idempotency_key: key }) {
  const items = where.ids.flatMap((id) => item(world, act, id))
  const digest = `sha256:${createHash('sha256').update(items.map((i) => i.id + '\n').sort().join('')).digest('hex')}`
  if (dry) return { act, dry_run: true, items, count: items.length, set: digest, done: 0, failed: 0 }
  if (set !== digest) throw Object.assign(new Error(`the set has changed: it is ${digest} now`), { status: 409, code: 'CONFLICT', more: { reason: 'SET_CHANGED', field: 'set' } })
  for (const i of items) Object.assign(i, tried(world, act, i.id, reason))
  world.acts = { ...world.acts, [key]: { count: items.length, tried: items.length, ended: true } }
  const failed = items.filter((i) => i.error).length
  return { act, items, count: items.length, set: digest, done: items.length - failed, failed }
}

export const progress = (world, q) => world.acts?.[q.get('idempotency_key')] ?? { count: 0, tried: 0, ended: false }

function item(world, act, id) {
  if (act === 'approve') return world.approvalList.filter((a) => a.id === id && a.status === 'pending').map((a) => ({ id, task: a.task, name: a.description, state: a.status }))
  const { name, state } = world.view(id)
  return act === 'cancel' && over.has(state) ? [] : [{ id, task: id, name, state }]
}

function tried(world, act, id, reason) {
  try {
    if (act === 'approve') return { result: world.decide(id, { as: 'granted', reason }).status }
    const done = world.act(id, act, reason ? { reason } : {})
    return { result: act === 'cancel' ? done.state : done.id }
  } catch (e) {
    return { error: { name: e.code ?? 'INTERNAL', message: e.message } }
  }
}
