// What requests to models cost, and how much fails.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { start } from '../kit.mjs'
import { Real } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

test('costs by day, model, agent and label, with the command and the budgets', async () => {
  const page = await kit.open('/agents')
  await page.getByRole('link', { name: 'Costs' }).last().click()
  await page.getByRole('rowheader', { name: 'review-change/review' }).waitFor()
  for (const [by, key] of [['Model', 'acme/large'], ['Identity', 'user:ada']]) {
    await page.getByRole('button', { name: by, exact: true }).click()
    await page.getByRole('rowheader', { name: key }).waitFor()
  }
  await page.getByRole('button', { name: 'Label', exact: true }).click()
  await page.getByLabel('Key of the label').fill('team')
  await page.getByRole('link', { name: 'core' }).waitFor()
  await page.getByLabel('Since', { exact: true }).selectOption('7d')
  await page.getByRole('button', { name: 'Copy as command: orch costs --by label:team --since 7d' }).waitFor()
  assert.match(page.url(), /by=label&label=team&since=7d$/)
  assert.equal(await page.getByRole('progressbar', { name: 'Spent of per day of agent:ci' }).evaluate((p) => p.value), 1)
  await page.getByRole('link', { name: 'core' }).click()
  await page.waitForFunction(() => location.pathname === '/ui/tasks' && location.search === '?label=team%3Dcore')
  await kit.close(page)
})

test('the node shows failures by hour', async () => {
  const page = await kit.open('/node')
  await page.getByText(/^\d+ failed tasks/).waitFor()
  assert.equal(await page.getByRole('list', { name: 'Failed tasks by hour' }).getByRole('listitem').count(), 24)
  const bars = await page.getByRole('list', { name: 'Failed tasks by hour' }).getByRole('listitem').allTextContents()
  assert.ok(bars.every((b) => /\d\d:00 UTC: \d+ failed$/.test(b)), bars.join())
  const marks = await page.locator('.hourmarks span').allTextContents()
  assert.equal(marks.length, 5)
  assert.ok(marks.slice(0, 4).every((m) => /^\d\d:00$/.test(m)), marks.join())
  await page.locator('.hours .n').first().waitFor()
  await kit.close(page)
})

test('on a real node without models there are no costs, and failures are counted', async () => {
  const real = await Real.start({}, { 'bad.yaml': "orch: v1\nname: bad\nsteps: [{id: a, tool: BASH_EXECUTE, with: {command: 'exit 3'}, expect: output.exit_code == 0}]\n" })
  try {
    assert.throws(() => real.orch('submit', 'bad.yaml'))
    const page = await real.login('/costs')
    await page.getByText('No model was asked in this time.').waitFor()
    await page.goto(`${real.kit.origin}/ui/node`)
    await page.getByText(/^1 failed task/).waitFor()
    await real.kit.close(page)
  } finally {
    await real.stop()
  }
})
