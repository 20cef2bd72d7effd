// Measures the time from a commit to the page: a real node runs tasks at a steady rate while a page shows its list of tasks. The time of
// a commit is that in the log, which the list shows; the page itself takes the time at which the line has changed in its document.
// Fails if 95 of 100 changes take longer than the budget. RATE is the commits in a second, SECONDS how long it measures.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as after } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const budget = 100
const rate = Number(process.env.RATE ?? 200)
const seconds = Number(process.env.SECONDS ?? 20)
const warm = 3
/** commitsOfTask is how many commits a task with one step has: its submission and its end. */
const commitsOfTask = 2
const plan = { orch: 'v1', name: 'latency', steps: [{ id: 'say', tool: 'LOG_WRITE', with: { level: 'INFO', message: 'hello' } }] }

const program = process.env.ORCH ?? fileURLToPath(new URL('../../bin/orch', import.meta.url))
const root = mkdtempSync(join(tmpdir(), 'orch-latency-'))
const data = join(root, 'data')
const orch = (...args) => execFileSync(program, ['--data-dir', data, ...args], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

/** serve starts a node, and returns its process and its address. */
async function serve() {
  const node = spawn(program, ['serve', '--data-dir', data, '--root', root, '--http', '127.0.0.1:0', '-o', 'json'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(createInterface({ input: node.stdout }), 'line')
  return { node, origin: new URL(JSON.parse(line).page).origin }
}

/** load submits tasks at the rate until the time is over, and returns their ids. */
async function load(origin, token, length) {
  const request = { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ plan }) }
  const submit = async () => {
    const answer = await fetch(`${origin}/api/v1/tasks`, request)
    if (answer.status !== 201) throw new Error(`a task was answered with ${answer.status}`)
    return (await answer.json()).id
  }
  const tasks = []
  const began = performance.now()
  for (let passed = 0; passed < length; passed = (performance.now() - began) / 1000) {
    while (tasks.length < (passed * rate) / commitsOfTask) tasks.push(submit())
    await after(2)
  }
  return Promise.all(tasks)
}

/** watch lets the page note, for each change of a line, how long after its commit it is in the document. */
function watch() {
  const shown = new Map()
  window.latencies = []
  const look = () => {
    const now = Date.now()
    for (const line of document.querySelectorAll('.virtual li')) {
      const id = line.querySelector('a')?.title
      const at = line.querySelector('time')?.dateTime
      if (!id || shown.get(id) === at) continue
      shown.set(id, at)
      window.latencies.push({ id, at, took: now - Date.parse(at) })
    }
  }
  new MutationObserver(look).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true, attributes: true })
}

/** report prints the figures, and returns whether they are within the budget. */
function report(ids, latencies) {
  const complete = ids.filter((id) => latencies.some((l) => l.id === id)).length
  const times = latencies.map((l) => l.took).toSorted((a, b) => a - b)
  const of = (share) => times[Math.floor(times.length * share)]
  process.stdout.write(`commit to page at ${rate} commits/s: p50 ${of(0.5)} ms, p95 ${of(0.95)} ms, p99 ${of(0.99)} ms, longest ${times.at(-1)} ms ` +
    `(${times.length} changes of ${complete} of ${ids.length} tasks; budget: p95 ≤ ${budget} ms)\n`)
  return of(0.95) <= budget && complete >= 0.99 * ids.length
}

const { node, origin } = await serve()
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  orch('submit', '--tool', 'LOG_WRITE', 'level=INFO', 'message=first')
  await page.goto(orch('ui').match(/http\S+/)[0])
  await page.goto(`${origin}/ui/tasks`)
  await page.locator('.virtual li').first().waitFor()
  const token = JSON.parse(orch('token', 'create', 'load', '--role', 'operator', '-o', 'json')).secret
  await load(origin, token, warm)
  await page.evaluate(watch)
  const ids = await load(origin, token, seconds)
  await after(1000)
  process.exitCode = report(ids, await page.evaluate(() => window.latencies)) ? 0 : 1
} finally {
  await browser.close()
  node.kill()
  await once(node, 'exit')
  rmSync(root, { recursive: true, force: true })
}
