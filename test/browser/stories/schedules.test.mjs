// The page of the schedules.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { realNode } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())

const copied = (page) => page.evaluate(() => navigator.clipboard.readText())
const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)

test('a viewer sees what is next, what has failed, and the tasks', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, role: 'viewer' })
  const page = await kit.open('/tasks', { width: 360 })
  await page.getByRole('link', { name: 'Schedules' }).click()
  const row = page.getByRole('row', { name: /nightly/ })
  await row.getByText('30 2 * * * Europe/Berlin').waitFor()
  await row.getByText(/^in 1h0[45]m$/).waitFor()
  await row.getByText('2 tasks in a row not done').waitFor()
  await page.getByRole('row', { name: /sync/ }).getByText('Paused').waitFor()
  await page.getByRole('row', { name: /empty/ }).getByText('never').waitFor()
  await page.getByRole('link', { name: 'nightly' }).click()
  const last = page.getByRole('region', { name: 'Last firings' })
  await last.getByText('INVALID_PLAN: there is no tool <i>X</i>').waitFor()
  await last.getByText('7 times').waitFor()
  await last.getByText('trigger by user:bob').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0, 'a viewer changes nothing')
  await settled(page)
  await accessible(page, 'a schedule')
  assert.ok(await fits(page))
  await last.getByRole('link', { name: ids.failed }).click()
  await page.waitForURL(`**/tasks/${ids.failed}`)
  await kit.close(page)
})

test('a schedule and the sessions follow what happens elsewhere', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/schedules/nightly')
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor()
  const headers = { 'Content-Type': 'application/json', 'X-Orch-Request': '1' }
  await fetch(`${kit.origin}/api/v1/schedules/nightly/pause`, { method: 'POST', headers, body: '{}' })
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  await kit.show(page, '/sessions')
  await settled(page)
  await kit.mock('change', { name: 'orch/session/late' })
  await page.getByRole('link', { name: 'late', exact: true }).waitFor()
  await kit.close(page)
})

test('an operator triggers, pauses and deletes', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/schedules/nightly')
  await page.getByRole('button', { name: 'Start a task now' }).click()
  await page.getByText(/permits no further task: task TASK_\w+ was still running/).waitFor()
  await page.getByRole('button', { name: /Copy as command: orch schedule trigger/ }).click()
  assert.equal(await copied(page), 'orch schedule trigger nightly')
  await page.getByRole('link', { name: 'sync' }).click()
  await page.getByText('the disk is full').waitFor()
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Delete…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Its tasks stay.').waitFor()
  await accessible(page, 'delete a schedule')
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.waitForURL('**/schedules')
  await page.getByRole('link', { name: 'sync' }).waitFor({ state: 'detached' })
  assert.deepEqual((await kit.mock('state')).map((r) => `${r.verb} ${r.schedule}`), ['trigger nightly', 'resume sync', 'pause sync', 'delete sync'])
  await kit.close(page)
})

test('without schedules the page says how to make one', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, services: 'none' })
  const page = await kit.open('/schedules')
  await page.getByText('There is no schedule.').waitFor()
  await accessible(page, 'no schedules')
  await kit.show(page, `/schedules/unknown`)
  await page.getByText('There is no such schedule.').waitFor()
  await kit.close(page)
})

const plan = 'orch: v1\nname: report\nsteps:\n  - {id: say, set: {at: "${{ schedule.time }}"}}\n'

test('on a real node a task starts at once, and its end is shown', async () => {
  const node = await realNode({ 'report.yaml': plan })
  try {
    node.orch('schedule', 'create', 'nightly', 'report.yaml', '--cron', '30 2 * * *', '--note', 'the report')
    const page = await node.login('/schedules/nightly')
    await page.getByText('It has started no task yet.').waitFor()
    await page.getByRole('button', { name: 'Start a task now' }).click()
    await page.getByRole('region', { name: 'Last firings' }).getByText(/^trigger by user:/).waitFor()
    await page.reload()
    await page.getByRole('region', { name: 'Last firings' }).getByText('Done', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Pause', exact: true }).click()
    await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
    assert.equal(JSON.parse(node.orch('schedule', 'get', 'nightly', '--json')).paused.by.slice(0, 5), 'user:')
    await accessible(page, 'a schedule of a node')
    await node.kit.close(page)
  } finally {
    await node.stop()
  }
})
