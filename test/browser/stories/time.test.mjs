// Times on the page: those of the node, whatever the clock of the browser says.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { start } from '../kit.mjs'
import { deployApproval, ids } from '../places.mjs'

let kit
before(async () => {
  kit = await start()
  await kit.mock('reset', { events: 0, tasks: 50 })
})
after(() => kit.stop())

for (const hours of [-3, 3]) {
  test(`ages are right when the clock of the browser is ${hours} hours off`, async () => {
    const page = await kit.open('/nowhere')
    await page.addInitScript((ms) => { const now = Date.now; Date.now = () => now() + ms }, hours * 3_600_000)
    await kit.show(page, `/inbox/${deployApproval}`)
    await page.getByText(/^for 6m, expires in 5[34]m /).waitFor()
    await kit.show(page, `/tasks/${ids.running}`)
    await page.getByText(/^began 3m ago$/).waitFor()
    await page.getByText(/^for 3m\d\ds$/).waitFor()
    await kit.show(page, '/tasks?since=1h')
    await page.getByRole('link', { name: 'deploy-shop' }).waitFor()
    const sinceOf = async (path, act) => {
      const asked = page.waitForRequest((r) => r.url().includes(path) && (r.url().includes('since=') || r.postData()?.includes('since')))
      await act()
      const request = await asked
      return Date.parse(new URL(request.url()).searchParams.get('since') ?? JSON.parse(request.postData()).since)
    }
    const near = (at, age) => assert.ok(Math.abs(Date.now() - age - at) < 60_000, `${new Date(at).toISOString()} is not ${age} ms ago`)
    near(await sinceOf('/api/v1/audit', () => kit.show(page, '/audit?since=1h')), 3_600_000)
    await page.getByRole('region', { name: 'Acts' }).getByRole('link').first().waitFor()
    await kit.show(page, '/policy')
    near(await sinceOf('/api/v1/policy/backtest', () => page.getByRole('button', { name: 'Judge past calls' }).click()), 24 * 3_600_000)
    await kit.close(page)
  })
}

test('no time is wrong at first, when the clock of the browser is 10 minutes off', async () => {
  const page = await kit.open('/nowhere')
  await page.addInitScript(() => {
    const now = Date.now
    Date.now = () => now() + 600_000
    globalThis.ages = new Set()
    new MutationObserver(() => { for (const t of document.querySelectorAll('time')) globalThis.ages.add(t.textContent) }).observe(document, { subtree: true, childList: true, characterData: true })
  })
  await kit.show(page, `/inbox/${deployApproval}`)
  await page.getByText(/^for 6m, expires in 5[34]m /).waitFor()
  const ages = await page.evaluate(() => [...globalThis.ages])
  assert.ok(ages.some((a) => /^5[34]m left$/.test(a)), ages.join())
  for (const wrong of ['for 16m', 'expires in 43m', 'expires in 44m', '43m left', '44m left', '16m']) assert.ok(!ages.includes(wrong), wrong)
  await kit.close(page)
})

test('the days of costs are those of the node when the clock of the browser is days off', async () => {
  const page = await kit.open('/nowhere')
  await page.addInitScript(() => { const now = Date.now; Date.now = () => now() + 72 * 3_600_000 })
  const asked = page.waitForRequest((r) => r.url().includes('/api/v1/costs?'))
  await kit.show(page, '/costs?since=7d')
  const since = Date.parse(new URL((await asked).url()).searchParams.get('since'))
  const day = 24 * 3_600_000
  assert.equal(since, Math.floor((Date.now() - 7 * day) / day) * day)
  await kit.close(page)
})

test('the hours of failures have their numbers and times in one line each, also on a small screen', async () => {
  const page = await kit.open('/node', { width: 360 })
  await page.locator('.hours .n').first().waitFor()
  await page.evaluate(() => { for (const n of document.querySelectorAll('.hours .n')) n.textContent = '43' })
  const heights = (of) => page.locator(of).evaluateAll((all) => all.map((e) => e.getBoundingClientRect().height))
  for (const of of ['.hours .n', '.hourmarks span']) for (const h of await heights(of)) assert.ok(h < 20, `${of} is ${h} high`)
  await kit.close(page)
})

test('a time in a sentence says how long it still takes', async () => {
  const page = await kit.open(`/tasks/${ids.deploy}`)
  await page.getByText(/\(in 5[34]m\d\ds\)/).waitFor()
  await kit.close(page)
})

test('the axis of a task that waits has a time at each mark', async () => {
  const page = await kit.open(`/tasks/${ids.late}`)
  await page.locator('.tick').first().waitFor()
  const ticks = await page.locator('.tick').allTextContents()
  assert.equal(new Set(ticks).size, ticks.length, ticks.join(' '))
  const wait = page.locator('.track .bar.approval').last()
  const [bar, track] = await Promise.all([wait.boundingBox(), wait.locator('..').boundingBox()])
  assert.ok(bar.width > track.width / 6, `${bar.width} of ${track.width}`)
  await kit.close(page)
})
