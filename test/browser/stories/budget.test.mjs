// The budgets of the page.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { start } from '../kit.mjs'
import { ids } from '../places.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())

test('10,000 tasks are at most 300 nodes', async () => {
  await kit.mock('reset', { tasks: 10_000, events: 0 })
  const page = await kit.open('/tasks')
  await page.getByText(/^10.000/).waitFor()
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length)
  assert.ok(nodes <= 300, `${nodes} nodes`)
  await page.locator('.virtual').evaluate((box) => { box.scrollTop = 5000 * 40 })
  await page.getByRole('link', { name: /-50\d\d$/ }).first().waitFor()
  assert.ok(await page.evaluate(() => document.querySelectorAll('*').length) <= 300)
  await kit.close(page)
})

test('100,000 events are usable within 2 seconds', async () => {
  await kit.mock('reset', { tasks: 10, events: 100_000 })
  await fetch(`${kit.origin}/api/v1/tasks/${ids.long}`)
  const began = performance.now()
  const page = await kit.open(`/tasks/${ids.long}?tab=events`)
  await page.getByRole('heading', { name: 'replay-archive' }).waitFor()
  const first = Math.round(performance.now() - began)
  await page.waitForFunction(() => /^(99|100).\d{3} events$/.test(document.querySelector('.events [role=status]')?.textContent ?? ''), null, { timeout: 30_000 })
  const all = Math.round(performance.now() - began)
  const moved = await page.evaluate(async () => {
    const slider = document.getElementById('slider')
    const from = performance.now()
    slider.value = '20000'
    slider.dispatchEvent(new Event('input', { bubbles: true }))
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
    return Math.round(performance.now() - from)
  })
  process.stdout.write(`# heading after ${first} ms, all events after ${all} ms, slider ${moved} ms\n`)
  assert.ok(first <= 2000, `${first} ms`)
  assert.ok(moved <= 500, `the slider took ${moved} ms`)
  await kit.close(page)
})
