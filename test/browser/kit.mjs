// What every story needs: the mock node, a browser, and pages that report their errors.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { AxeBuilder } from '@axe-core/playwright'
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
    this.errors = []
    page.on('pageerror', (e) => this.errors.push(String(e)))
    page.on('console', (m) => { if (m.type() === 'error' && !/ERR_|Failed to load resource/.test(m.text())) this.errors.push(m.text()) })
    page.on('dialog', (d) => { this.errors.push(`a window opened: ${d.message()}`); void d.dismiss() })
    await page.goto(`${this.origin}/ui${path}`)
    return page
  }

  /** close ends the context of a page; errors of the page fail the story. */
  async close(page) {
    await page.context().close()
    assert.deepEqual(this.errors, [])
  }
}

/** settled waits until a page has read what it shows. */
export async function settled(page) {
  await page.waitForLoadState('networkidle').catch(() => {})
  await page.locator('.loading').waitFor({ state: 'detached' })
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
}

/** accessible fails if axe finds a violation, or cannot tell. */
export async function accessible(page, where) {
  const found = await new AxeBuilder({ page }).analyze()
  const say = (list) => list.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.any?.[0]?.message ?? n.failureSummary}`).join(' | ')}`)
  assert.deepEqual({ violations: say(found.violations), incomplete: say(found.incomplete) }, { violations: [], incomplete: [] }, where)
}
