// What every story needs: the mock node, a browser, and pages that report their errors.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const mock = fileURLToPath(new URL('../../web/dev/mock.mjs', import.meta.url))

/** start runs a mock node and a browser. stop ends both. */
export async function start() {
  const node = spawn(process.execPath, [mock, '0'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(node.stdout, 'data')
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
  const kit = new Kit(new URL(String(line).trim()).origin, browser)
  kit.stop = async () => { await browser.close(); node.kill() }
  return kit
}

export class Kit {
  constructor(origin, browser) {
    this.origin = origin
    this.browser = browser
    this.errors = []
  }

  /** mock asks the mock node for something, and returns the writes that it received. */
  async mock(path, query = {}) {
    const response = await fetch(`${this.origin}/mock/${path}?${new URLSearchParams(query)}`)
    return (await response.json()).requests
  }

  /** open shows a path of the page in a fresh context. */
  async open(path, { width = 1280, height = 800, scheme = 'light' } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'],
    })
    const page = await context.newPage()
    page.setDefaultTimeout(10_000)
    watch(page)
    this.errors = []
    page.on('pageerror', (e) => this.errors.push(String(e)))
    page.on('console', (m) => { if (m.type() === 'error' && !/ERR_|Failed to load resource/.test(m.text())) this.errors.push(m.text()) })
    page.on('dialog', (d) => { this.errors.push(`a window opened: ${d.message()}`); void d.dismiss() })
    await this.show(page, path)
    return page
  }

  /** show shows another path in a page, which is loaded again. The way back of a dialog that was just closed would end the load. */
  async show(page, path) {
    await page.waitForFunction(() => !history.state?.over || document.querySelector('dialog'))
    await page.goto(`${this.origin}/ui${path}`)
  }

  /** close ends the context of a page; errors of the page fail the story. */
  async close(page) {
    await page.context().close()
    assert.deepEqual(this.errors, [])
  }
}

/** unanswered are the requests of a page without an answer. A stream is answered when it is open. */
const unanswered = new WeakMap()

/** watch counts the requests of a page from now on. */
function watch(page) {
  const open = new Set()
  unanswered.set(page, open)
  page.on('request', (r) => open.add(r))
  page.on('response', (r) => { if (r.request().resourceType() === 'eventsource') open.delete(r.request()) })
  page.on('requestfinished', (r) => open.delete(r))
  page.on('requestfailed', (r) => open.delete(r))
}

/** settled waits until a page has read what it shows: no request is without an answer, also not after what came was drawn. */
export async function settled(page) {
  const open = unanswered.get(page)
  const deadline = Date.now() + 30_000
  for (let quiet = 0; quiet < 2; quiet++) {
    await page.waitForFunction(() => !document.querySelector('.loading'))
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))))
    if (open.size > 0) quiet = -1
    assert.ok(Date.now() < deadline, `no answer to ${[...open].map((r) => r.url())}`)
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** accessible fails if a rule of axe finds a violation, or cannot tell. The details of what passes are not collected. */
export async function accessible(page, where) {
  if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(axe)
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations', 'incomplete'] }))
  const say = (list) => list.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.any?.[0]?.message ?? n.failureSummary}`).join(' | ')}`)
  assert.deepEqual({ violations: say(found.violations), incomplete: say(found.incomplete) }, { violations: [], incomplete: [] }, where)
}
