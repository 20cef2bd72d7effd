// A node without a node: the API of the page over data in memory, for development and for the stories in test/browser.
// node web/dev/mock.mjs [PORT] serves web/dist and the API; POST /mock/reset?role=viewer begins anew.
import { createReadStream, existsSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { audit, happens } from './audit.mjs'
import { bulk, progress } from './bulk.mjs'
import { costs } from './costs.mjs'
import { file, files } from './files.mjs'
import { conversation } from './fixtures.mjs'
import { backtest, explain, policy } from './policy.mjs'
import { held, hold, holds, release, retention } from './retention.mjs'
import { schedules, steer } from './schedules.mjs'
import { accept, agents, mcpServers, mcpTools } from './services.mjs'
import { destination, destinations, hook, hooks, steerDestination, steerHook } from './webhooks.mjs'
import { World } from './world.mjs'

const dist = fileURLToPath(new URL('../dist/', import.meta.url))
const csp =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }

let world = new World({})
let away = false

/** routes are the paths of the API: a method, a pattern and what answers. */
const routes = [
  ['GET', /^\/status$/, () => world.status()],
  ['GET', /^\/tasks$/, (_, q) => world.list(q)],
  ['POST', /^\/tasks:bulk$/, (_, __, body) => bulk(world, body)],
  ['GET', /^\/tasks:bulk$/, (_, q) => progress(world, q)],
  ['GET', /^\/tasks\/([^/]+)$/, ([id]) => held(world, world.view(id))],
  ['GET', /^\/tasks\/([^/]+)\/history$/, ([id], q) => world.history(id, Number(q.get('from') ?? 1), Number(q.get('limit') ?? 1000))],
  ['GET', /^\/tasks\/([^/]+)\/steps\/([^/]+)\/conversation$/, ([id, step], q) => conversation(world.story(id), step, { rev: Number(q.get('rev')), from: Number(q.get('from')), limit: Number(q.get('limit')) })],
  ['GET', /^\/tasks\/([^/]+)\/files$/, ([id], q) => files(world.view(id), q)],
  ['GET', /^\/tasks\/([^/]+)\/files\/(.+)$/, ([id, path], q) => file(world.view(id), decodeURIComponent(path), q)],
  ['GET', /^\/tasks\/([^/]+)\/trace$/, () => ({ trace: '4bf92f3577b34da6a3ce929d0e0e4736', spans: 0, next: 2, resourceSpans: [] })],
  ['GET', /^\/tasks\/([^/]+)\/explain$/, ([id]) => world.explain(id)],
  ['GET', /^\/tasks\/([^/]+)\/replay$/, ([id]) => world.replay(id)],
  ['POST', /^\/tasks\/([^/]+)\/(cancel|pause|resume|retry|redrive|resolve|fork|undo)$/, ([id, verb], _, body) => world.act(id, verb, body)],
  ['GET', /^\/diff$/, (_, q) => world.diff(q.get('a'), q.get('b'))],
  ['GET', /^\/queue$/, () => world.queue()],
  ['GET', /^\/approvals$/, (_, q) => world.approvals(q.get('task'), q.get('expired'))],
  ['GET', /^\/approvals\/([^/]+)$/, ([id]) => world.approval(id)],
  ['POST', /^\/approvals\/([^/]+)\/decide$/, ([id], _, body) => world.decide(id, body)],
  ['GET', /^\/questions$/, () => world.questions()],
  ['GET', /^\/questions\/([^/]+)$/, ([id]) => world.question(id)],
  ['POST', /^\/questions\/([^/]+)\/answer$/, ([id], _, body) => world.answer(id, body)],
  ['GET', /^\/schedules$/, () => schedules(world)],
  ['POST', /^\/schedules\/([^/]+)\/(pause|resume|trigger|delete)$/, ([name, act]) => steer(world, name, act)],
  ['GET', /^\/hooks$/, () => hooks(world)],
  ['GET', /^\/hooks\/([^/]+)$/, ([name]) => hook(world, name)],
  ['POST', /^\/hooks\/([^/]+)\/(pause|resume|rotate|test|delete)$/, ([name, act], _, body) => steerHook(world, name, act, body)],
  ['GET', /^\/destinations$/, () => destinations(world)],
  ['GET', /^\/destinations\/([^/]+)$/, ([name]) => destination(world, name)],
  ['POST', /^\/destinations\/([^/]+)\/(pause|resume|rotate|redeliver|test|delete)$/, ([name, act], _, body) => steerDestination(world, name, act, body)],
  ['GET', /^\/retention$/, () => retention(world)],
  ['GET', /^\/holds$/, (_, q) => holds(world, q)],
  ['POST', /^\/holds$/, (_, __, body) => hold(world, body)],
  ['POST', /^\/holds\/release$/, (_, __, body) => release(world, body)],
  ['GET', /^\/audit$/, (_, q) => audit(world, q)],
  ['GET', /^\/costs$/, (_, q) => costs(world, q)],
  ['GET', /^\/agents$/, () => agents(world)],
  ['GET', /^\/mcp\/servers$/, () => mcpServers(world)],
  ['GET', /^\/mcp\/servers\/([^/]+)\/tools$/, ([name]) => mcpTools(world, name)],
  ['POST', /^\/mcp\/servers\/([^/]+)\/accept$/, ([name], _, body) => accept(world, name, body)],
  ['GET', /^\/policy$/, () => policy(world)],
  ['POST', /^\/policy\/explain$/, (_, __, body) => explain(body)],
  ['POST', /^\/policy\/backtest$/, (_, __, body) => backtest(body)],
  ['POST', /^\/(pause|resume)$/, ([verb], _, body) => world.control(verb, body)],
]

function json(res, status, body) {
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body).replace('"@BIG@"', '12345678901234567890'))
}

function fail(res, status, code, message, more = {}) {
  json(res, status, { error: { code, message, request_id: 'req-mock', ...more } })
}

async function bodyOf(req) {
  let text = ''
  for await (const chunk of req) text += chunk
  return text ? JSON.parse(text) : {}
}

async function api(req, res, path, query) {
  if (away) return req.socket.destroy()
  if (world.signedOut) return fail(res, 401, 'UNAUTHORIZED', 'the page has no cookie')
  if (req.method === 'GET' && path === '/events') return world.follow(query.get('after') ?? '', open(res), res)
  const followed = /^\/tasks\/([^/]+)\/events$/.exec(path)
  if (followed && !world.knows(followed[1])) return fail(res, 404, 'NOT_FOUND', `there is no task ${followed[1]}`)
  if (followed) return world.followTask(followed[1], Number(req.headers['last-event-id'] ?? query.get('after') ?? 0), open(res), res)
  for (const [method, pattern, answer] of routes) {
    const match = req.method === method && pattern.exec(path)
    if (!match) continue
    if (method === 'POST' && req.headers['x-orch-request'] !== '1') return fail(res, 403, 'FORBIDDEN', 'a write needs X-Orch-Request')
    if (method === 'POST' && world.role === 'viewer' && !path.startsWith('/policy/')) return fail(res, 403, 'FORBIDDEN', 'a viewer changes nothing')
    try {
      return json(res, 200, answer(match.slice(1), query, method === 'POST' ? await bodyOf(req) : undefined))
    } catch (e) {
      return fail(res, e.status ?? 500, e.code ?? 'INTERNAL', e.message, e.more)
    }
  }
  return fail(res, 404, 'NOT_FOUND', `there is no ${req.method} ${path}`)
}

function open(res) {
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  res.flushHeaders()
  return (event, data, id) => res.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

/** control is for the stories: it makes the node go away, or gives it another world. */
function control(res, path, query) {
  const options = Object.fromEntries(query)
  if (path === '/away') { away = true; world.hangUp() }
  if (path === '/back') away = false
  if (path === '/reset') { world.hangUp(); away = false; world = new World(options) }
  if (path === '/act') happens(world)
  if (path === '/change') world.change(options)
  json(res, 200, { requests: world.requests })
}

function asset(res, path) {
  const name = normalize(path).replace(/^(\.\.[/\\])+/, '')
  const found = existsSync(join(dist, name)) && statSync(join(dist, name)).isFile() ? name : 'index.html'
  res.writeHead(200, { 'Content-Type': types[extname(found)] ?? 'text/plain', 'Content-Security-Policy': csp, 'X-Content-Type-Options': 'nosniff' })
  createReadStream(join(dist, found)).pipe(res)
}

const server = createServer((req, res) => {
  const url = new URL(req.url, 'http://localhost')
  if (url.pathname.startsWith('/api/v1')) return void api(req, res, url.pathname.slice(7), url.searchParams)
  if (url.pathname.startsWith('/mock')) return control(res, url.pathname.slice(5), url.searchParams)
  if (url.pathname.startsWith('/ui/')) return asset(res, url.pathname.slice(4))
  res.writeHead(302, { Location: '/ui/' }).end()
})
server.listen(Number(process.argv[2] ?? 8787), '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}/ui/\n`))
