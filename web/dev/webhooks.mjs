// The hooks and the destinations of the mock node.
import { taskID } from './fixtures.mjs'

const at = (seconds) => new Date(Date.now() + seconds * 1000).toISOString()
const evil = '<img src=x onerror=alert(1)>\u202e'

const hookOf = (name, provider, more) => ({
  name, id: `HOOK_${name}`, url: `http://127.0.0.1:7424/hooks/${name}`, definition: { provider, plan: { orch: 'v1', name, steps: [] } }, plan_name: name, requestor: 'user:ada',
  created_at: at(-90_000), updated_at: at(-86_400), has_secret: provider !== 'none', counts: {}, deliveries: [], ...more,
})

const allHooks = () => {
  const refused = { at: at(-300), delivery: '4f2b-2', event: 'push', result: 'refused', reason: `inputs.ref: ${evil} is too long` }
  return [
    hookOf('button', 'slack', { definition: { provider: 'slack', signal: { task: '${{ hook.body.task }}', name: 'answer' } }, paused: { by: 'user:bob', at: at(-30), note: 'the release is frozen' } }),
    hookOf('deploy', 'github', {
      definition: { provider: 'github', when: 'hook.headers["x-github-event"] == "push"', plan: { orch: 'v1', name: `deploy ${evil}`, steps: [] }, note: `${evil} what is pushed` },
      plan_name: `deploy ${evil}`,
      counts: { accepted: 12, duplicate: 1, refused: 3, rejected: 2 }, last_rejected: { at: at(-40), result: 'rejected', reason: 'no signature is right' }, last_refused: refused, previous_until: at(3600),
      deliveries: [
        { at: at(-20), delivery: '4f2b-3', event: 'push', result: 'accepted', task: taskID(10_020) },
        refused,
        { at: at(-900), delivery: '4f2b-1', event: 'ping', result: 'filtered', reason: 'it only asks whether the hook is there' },
      ],
    }),
    hookOf('open', 'none'),
    hookOf('restored', 'standard', { has_secret: false }),
  ]
}

const letter = (n, type, more) => ({ id: `${taskID(n)}-7-0`, type, task: taskID(n), at: at(-7200), attempts: 10, last: { at: at(-60), status: 500, error: 'the receiver answered 500' }, ...more })

const destinationOf = (name, url, more) => ({
  name, id: `DEST_${name}`, definition: { url }, requestor: 'user:ada', created_at: at(-90_000), updated_at: at(-86_400), has_secret: true, delivered: 0, pending: 0, dead: 0, ...more,
})

const allDestinations = () => [
  destinationOf('books', 'https://books.example.com/in', { delivered: 1240, last_delivered: at(-3) }),
  destinationOf('moved', 'https://old.example.com/in', { paused: { by: 'node', at: at(-70), note: 'the receiver answered 410: it wants no further deliveries' } }),
  destinationOf('pager', 'https://pager.example.com/orch?a=%3Ci%3E', {
    definition: { url: 'https://pager.example.com/orch?a=%3Ci%3E', events: ['task.failed', 'approval.*'], labels: { team: 'shop' }, when: 'hook.body.data.name != "quiet"', note: `wakes ${evil}` },
    delivered: 7, last_delivered: at(-8000), last_failure: { at: at(-60), error: `${evil} refused the connection` }, oldest_pending: at(-5000),
    pending: 1, pending_deliveries: [letter(10_022, 'approval.requested', { at: at(-5000), attempts: 2, next_at: at(240) })],
    dead: 2, dead_deliveries: [letter(10_020, 'task.failed'), letter(10_021, 'task.failed', { last: { at: at(-60), error: evil } })],
  }),
]

const hooksOf = (world) => (world.hooks ??= world.services === 'none' ? [] : allHooks())
const destinationsOf = (world) => (world.destinations ??= world.services === 'none' ? [] : allDestinations())

function find(list, name) {
  const one = list.find((o) => o.name === name)
  if (!one) throw Object.assign(new Error(`there is nothing with the name ${name}`), { status: 404, code: 'NOT_FOUND' })
  return one
}

export const hooks = (world) => ({ hooks: hooksOf(world).map((h) => ({ ...h, definition: { ...h.definition, plan: undefined }, deliveries: h.deliveries.slice(0, 1) })) })
export const hook = (world, name) => find(hooksOf(world), name)
export const destinations = (world) => ({ destinations: destinationsOf(world).map((d) => ({ ...d, pending_deliveries: undefined, dead_deliveries: undefined })) })
export const destination = (world, name) => find(destinationsOf(world), name)

/** steer does what the acts of both have in common. */
function steer(one, act, body) {
  if (act === 'pause') one.paused = { by: 'user:ada', at: at(0), note: body.note }
  if (act === 'resume') delete one.paused
  if (act === 'rotate') Object.assign(one, { has_secret: true, previous_until: at(86_400) })
}

/** steerHook does to a hook what the page asks for. */
export function steerHook(world, name, act, body) {
  const h = hook(world, name)
  world.requests.push({ verb: act, hook: name, body })
  if (act === 'test') return { at: at(0), delivery: 'test-1', result: 'accepted', event: body.headers['X-GitHub-Event'], task: taskID(10_020), inputs: { ref: `${evil} main` }, headers: {} }
  if (act === 'delete') world.hooks = hooksOf(world).filter((o) => o !== h)
  steer(h, act, body)
  return h
}

/** steerDestination does to a destination what the page asks for. */
export function steerDestination(world, name, act, body) {
  const d = destination(world, name)
  world.requests.push({ verb: act, destination: name, body })
  if (act === 'test') return { ...d, tested: name === 'books' ? { at: at(0), status: 204 } : { at: at(0), error: 'the receiver answered 500', status: 500 } }
  if (act === 'delete') world.destinations = destinationsOf(world).filter((o) => o !== d)
  if (act === 'redeliver') redeliver(d, body.deliveries)
  steer(d, act, body)
  return d
}

function redeliver(d, ids) {
  const gone = ids.find((id) => !d.dead_deliveries.some((one) => one.id === id))
  if (gone) throw Object.assign(new Error(`there is no dead letter "${gone}"`), { status: 404, code: 'NOT_FOUND' })
  const again = d.dead_deliveries.filter((one) => ids.length === 0 || ids.includes(one.id))
  d.dead_deliveries = d.dead_deliveries.filter((one) => !again.includes(one))
  d.pending_deliveries.push(...again.map((one) => ({ ...one, attempts: 0, next_at: at(0) })))
  Object.assign(d, { dead: d.dead_deliveries.length, pending: d.pending_deliveries.length })
}
