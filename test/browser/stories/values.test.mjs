// Somebody reads what the steps of a task have returned: large outputs, the results of tests that failed, and the logs of a long loop, on a real node.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { accessible, settled } from '../kit.mjs'
import { Real } from '../real.mjs'

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText())

let real
before(async () => { real = await Real.start() })
after(() => real?.stop())

/** run submits a plan, waits for its end, and returns the id of its task. */
function run(name, plan) {
  real.write(`${name}.json`, JSON.stringify({ orch: 'v1', name, ...plan }))
  const task = real.orch('submit', `${name}.json`, '--detach', '-o', 'name')
  try { real.orch('result', task) } catch { /* it fails, as planned */ }
  return task
}

test('a large output is read part by part, saved, and printed by the command beside it', async () => {
  const command = 'for i in $(seq 30000); do echo "line $i: 100% <b>ü</b>"; done'
  const task = run('lines', { steps: [{ id: 'lines', tool: 'BASH_EXECUTE', with: { command } }], outputs: { all: '${{ steps.lines.output.stdout }}' } })
  const page = await real.login(`/tasks/${task}?step=lines`)
  const panel = page.getByRole('complementary', { name: 'Step lines' })
  await panel.getByText('line 1: 100% <b>ü</b>').waitFor()
  await panel.getByText(/^The first 64 KiB of [\d.]+ KiB\.$/).waitFor()
  assert.doesNotMatch(await panel.textContent(), /sha256-/)
  assert.match(await panel.getByRole('region', { name: 'stdout' }).textContent(), /line 1: [^\n]*\nline 2: /, 'line breaks are kept')
  await accessible(page, 'the beginning of a large output')
  const [saved] = await Promise.all([page.waitForEvent('download'), panel.getByRole('button', { name: 'Download the output as JSON' }).click()])
  const whole = JSON.parse(readFileSync(await saved.path(), 'utf8'))
  assert.match(whole.stdout, /line 30000: 100% <b>ü<\/b>\n?$/)
  for (const more = panel.getByRole('button', { name: 'Show more' }); await more.count();) {
    await more.click()
    await page.waitForFunction(() => !document.querySelector('.large button:disabled'))
  }
  await panel.getByRole('button', { name: /^Show all/ }).click()
  await panel.getByText('line 30000: 100% <b>ü</b>').waitFor()
  await panel.getByRole('button', { name: /Copy as command: orch get/ }).click()
  assert.match(real.shell(await clipboard(page)), /line 30000: 100% <b>ü<\/b>\n/)

  for (const tab of ['Logs', 'Data']) {
    await page.getByRole('link', { name: tab, exact: true }).click()
    await page.locator('.main').getByText('line 2: 100% <b>ü</b>').waitFor()
  }
  await page.locator('.main').getByRole('button', { name: /Copy as command: orch result/ }).click()
  assert.match(real.shell(await clipboard(page)), /line 30000/)
  await real.kit.close(page)
})

test('a step that failed because of its result says which line of which test', async () => {
  const command = "printf 'ok 1\\nprice_test.go:14: got 0, want 1350\\nok 2\\n'; exit 1"
  const task = run('nightly', { steps: [{ id: 'tests', tool: 'BASH_EXECUTE', with: { command }, expect: 'output.exit_code == 0', retry: { on: ['unexpected'], max_attempts: 2, initial: '1ms' } }] })
  const page = await real.login(`/tasks/${task}?step=tests`)
  const panel = page.getByRole('complementary', { name: 'Step tests' })
  await panel.getByRole('heading', { name: 'Output, which the plan did not expect' }).waitFor()
  assert.match(await panel.getByRole('region', { name: 'stdout' }).textContent(), /^ok 1\nprice_test.go:14: got 0, want 1350\nok 2$/m)
  await panel.getByRole('button', { name: /Copy as command: orch get/ }).click()
  assert.match(real.shell(await clipboard(page)), /price_test.go:14: got 0, want 1350\n/)
  await page.getByRole('link', { name: 'Logs', exact: true }).click()
  await page.locator('.main').getByText('price_test.go:14').first().waitFor()
  await settled(page)
  await accessible(page, 'a refused result')
  await real.kit.close(page)
})

test('a call is drawn as long as it ran', async () => {
  const task = run('slow', { steps: [{ id: 'slow', tool: 'BASH_EXECUTE', with: { command: 'sleep 1.5', read_only: true }, effect: 'read' }] })
  const view = JSON.parse(real.orch('get', task, '-o', 'json'))
  assert.equal(view.state, 'DONE')
  const page = await real.login(`/tasks/${task}`)
  await page.getByRole('button', { name: /^slow/ }).waitFor()
  await page.getByLabel('Collapse idle time').uncheck()
  const bar = page.locator('.track .bar.running')
  const share = await bar.evaluate((el) => el.getBoundingClientRect().width / el.parentElement.getBoundingClientRect().width)
  const queued = await page.locator('.track .bar.queued').evaluate((el) => el.getBoundingClientRect().width / el.parentElement.getBoundingClientRect().width)
  assert.ok(share > 0.6 && queued < share, `${share} of the axis is green, ${queued} queued`)
  await real.kit.close(page)
})

test('the log of a long loop leads to the logs of its parts', async () => {
  const items = JSON.stringify(Array.from({ length: 1500 }, (_, i) => i))
  const task = run('loop', { steps: [{ id: 'each', for_each: items, as: 'n', do: [{ id: 'log', tool: 'LOG_WRITE', with: { level: 'INFO', message: 'item ${{ n }}' } }] }] })
  const page = await real.login(`/tasks/${task}?tab=logs`)
  const parts = page.getByRole('navigation', { name: 'Logs of other tasks' })
  await parts.getByRole('link').first().click()
  await page.waitForURL((url) => !url.pathname.endsWith(task) && url.searchParams.get('tab') === 'logs')
  await page.getByText(/^item \d+$/).first().waitFor()
  await settled(page)
  await accessible(page, 'the log of a part')
  await real.kit.close(page)
})
