// The audit stream of the mock node.
import { taskID } from './fixtures.mjs'

const at = (seconds) => new Date(Date.now() + seconds * 1000).toISOString()
const evil = '<img src=x onerror=alert(1)>\u202e'
const kinds = ['task.cancel', 'approval.grant', 'schedule.pause', 'token.create', 'hook.rotate']
const targets = [taskID(10_021), `APR_${taskID(10_022).slice(5)}_DEPLOYAA`, 'nightly', 'tok_1', 'deploy']

/** all are acts, the newest last, with the hostile and the rare ones at the end. */
function all() {
  const acts = Array.from({ length: 250 }, (_, i) => ({
    n: 2 * i + 1, at: at(-60 * (260 - i)), ended_at: at(-60 * (260 - i)), actor: i % 3 ? 'user:ada' : 'user:bob', credential: 'operator', face: 'bus', act: kinds[i % kinds.length],
    target: targets[i % targets.length], params: { reason: `reason ${i}` }, outcome: 'done',
    ...(i % kinds.length === 0 ? { task: { id: taskID(10_021), rev: 7, hash: 'q83vEjRWeJC-hash' } } : {}),
  }))
  return [
    ...acts,
    { n: 501, at: at(-200), actor: 'unknown', face: 'http', source: '10.0.0.7', act: 'authenticate', outcome: 'refused', error: { code: 'UNAUTHORIZED', message: `the token ${evil} is not valid` } },
    { n: 502, at: at(-100), actor: 'unknown', face: 'http', source: '10.0.0.7', act: 'authenticate', outcome: 'refused', count: 12, since: at(-190), error: { code: 'UNAUTHORIZED', message: 'the token is not valid' } },
    { n: 503, at: at(-50), actor: `agent:${evil}`, credential: 'tok_2', face: 'mcp', act: 'tool.call', target: evil, outcome: 'refused', error: { code: 'FORBIDDEN', field: 'tool', message: 'the role has no such right' }, params: { args: 'sha256:00ff' } },
    { n: 504, at: at(-9), actor: 'user:ada', credential: 'login', face: 'http', source: '127.0.0.1', act: 'backup.take', outcome: 'unknown' },
  ]
}

const of = (world) => (world.acts ??= world.services === 'none' ? [] : all())

const named = (pattern, name) => !pattern || (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern)

/** audit returns a page of acts. */
export function audit(world, q) {
  const [actor, target, since, until, outcome] = ['actor', 'target', 'since', 'until', 'outcome'].map((name) => q.get(name))
  const before = Number(q.get('before') || Infinity)
  const limit = Number(q.get('limit') || 100)
  const found = of(world).filter((a) => a.n < before && (!actor || a.actor === actor) && named(q.get('act'), a.act) && (!target || a.target === target || a.task?.id === target) &&
    (!outcome || a.outcome === outcome) && (!since || a.at >= since) && (!until || a.at < until))
  const acts = found.slice(-limit)
  return { acts, next: found.length > acts.length ? acts[0].n : undefined }
}

/** happens records another act. */
export function happens(world) {
  of(world).push({ n: of(world).length ? of(world).at(-1).n + 1 : 1, at: at(0), actor: 'user:eve', face: 'bus', act: 'node.pause', outcome: 'done', ended_at: at(0) })
}
