// The site of the documentation, read from a disk.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { accessible } from '../kit.mjs'

const folder = mkdtempSync(join(tmpdir(), 'orch-site-'))
let browser
before(async () => {
  execFileSync('hugo', ['--source', fileURLToPath(new URL('../../../site', import.meta.url)), '--destination', folder, '--quiet'])
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
})
after(async () => { await browser?.close(); rmSync(folder, { recursive: true }) })

async function open(path, viewport = { width: 1280, height: 800 }, colorScheme = 'light') {
  const context = await browser.newContext({ viewport, colorScheme })
  const page = await context.newPage()
  page.setDefaultTimeout(10_000)
  const errors = []
  page.on('pageerror', (e) => errors.push(String(e)))
  await page.goto(`file://${folder}/${path}`)
  return { page, errors, close: async () => { assert.deepEqual(errors, []); await context.close() } }
}

test('somebody finds a page by words, with keys alone', async () => {
  const { page, close } = await open('how-to/run-agents.html')
  await page.keyboard.press('/')
  await page.keyboard.type('daylight sav')
  await page.getByRole('link', { name: /^Schedules/ }).first().waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/reference/schedules.html*')
  await page.getByRole('heading', { level: 1, name: 'Schedules' }).waitFor()
  await page.getByRole('searchbox').fill('idempotency key')
  await page.getByRole('link', { name: /^Plans › Idempotency keys/ }).waitFor()
  await page.getByRole('searchbox').press('ArrowDown')
  await page.keyboard.press('Escape')
  assert.equal(await page.locator('#found').isVisible(), false)
  await page.getByRole('searchbox').fill('qwertzuiop')
  await page.getByText('Nothing is found.').waitFor()
  await page.getByRole('searchbox').fill('<img src=x onerror=alert(1)>')
  await page.locator('#found li').first().waitFor()
  await close()
})

test('the menu shows where a page is, and links between pages hold', async () => {
  const { page, close } = await open('index.html')
  await page.getByRole('link', { name: 'Your first plan' }).first().click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  assert.equal(await page.locator('nav a[aria-current=page]').innerText(), await page.getByRole('heading', { level: 1 }).innerText())
  await close()
})

for (const scheme of ['light', 'dark']) {
  test(`everybody can read it: ${scheme}`, async () => {
    for (const path of ['index.html', 'adr.html', 'reference/schedules.html', 'how-to/use-the-page.html']) {
      const { page, close } = await open(path, { width: 360, height: 800 }, scheme)
      await accessible(page, path)
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} fits`)
      await close()
    }
  })
}
