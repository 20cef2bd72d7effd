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
  const command = 'for i in $(seq 6000); do echo "line $i: 100% <b>ü</b>"; done'
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
  assert.match(whole.stdout, /line 6000: 100% <b>ü<\/b>\n?$/)
  for (const more = panel.getByRole('button', { name: 'Show more' }); await more.count();) {
    await more.click()
    await page.waitForFunction(() => !document.querySelector('.large button:disabled'))
  }
  await panel.getByRole('button', { name: /^Show all/ }).click()
  await panel.getByText('line 6000: 100% <b>ü</b>').waitFor()
  await panel.getByRole('button', { name: /Copy as command: orch .*get/ }).click()
  assert.match(real.shell(await clipboard(page)), /line 6000: 100% <b>ü<\/b>\n/)

  for (const tab of ['Logs', 'Data']) {
    await page.getByRole('link', { name: tab, exact: true }).click()
    await page.locator('.main').getByText('line 2: 100% <b>ü</b>').waitFor()
  }
  await page.locator('.main').getByRole('button', { name: /Copy as command: orch .*result/ }).click()
  assert.match(real.shell(await clipboard(page)), /line 6000/)
  await real.kit.close(page)
})

test('a step that failed because of its result says which line of which test', async () => {
  const command = "printf 'ok 1\\nprice_test.go:14: got 0, want 1350\\nok 2\\n'; exit 1"
  const task = run('nightly', { steps: [{ id: 'tests', tool: 'BASH_EXECUTE', with: { command }, expect: 'output.exit_code == 0', retry: { on: ['unexpected'], max_attempts: 2, initial: '1ms' } }] })
  const page = await real.login(`/tasks/${task}?step=tests`)
  const panel = page.getByRole('complementary', { name: 'Step tests' })
  await panel.getByRole('heading', { name: 'Output, which the plan did not expect' }).waitFor()
  assert.match(await panel.getByRole('region', { name: 'stdout' }).textContent(), /^ok 1\nprice_test.go:14: got 0, want 1350\nok 2$/m)
  await accessible(page, 'a refused result')
  await panel.getByRole('button', { name: /Copy as command: orch .*get/ }).click()
  assert.match(real.shell(await clipboard(page)), /price_test.go:14: got 0, want 1350\n/)
  await page.getByRole('link', { name: 'Logs', exact: true }).click()
  await page.locator('.main').getByText('price_test.go:14').first().waitFor()
  await settled(page)
  await real.kit.close(page)
})

test('a suite that ran for seconds is drawn as long as it ran, and says which test failed', async () => {
  real.write('slow.test.mjs', "import test from 'node:test'\nimport assert from 'node:assert'\ntest('price', async () => { await new Promise((r) => setTimeout(r, 2500)); assert.equal(0, 1350) })\n")
  const task = run('suite', { steps: [{ id: 'suite', tool: 'TEST_EXECUTE', with: { framework: 'node', test_path: `${real.project}/slow.test.mjs` }, expect: 'output.failed == 0' }] })
  assert.equal(JSON.parse(real.orch('get', task, '-o', 'json')).error.name, 'TOOL_FAILED')
  const page = await real.login(`/tasks/${task}?step=suite`)
  const panel = page.getByRole('complementary', { name: 'Step suite' })
  await panel.getByText('0 == 1350').first().waitFor()
  const lines = await panel.locator('pre').allTextContents()
  assert.ok(lines.some((text) => /\n *at [^\n]*slow\.test\.mjs:3/.test(text) && !text.includes('\\n')), 'line breaks inside of a list are kept')
  await accessible(page, 'the failures of a suite')
  await page.getByLabel('Collapse idle time').uncheck()
  const share = (name) => page.locator(`.track .bar.${name}`).evaluate((el) => el.getBoundingClientRect().width / el.parentElement.getBoundingClientRect().width)
  const [ran, queued] = await Promise.all([share('running'), share('queued')])
  assert.ok(ran > 0.8 && queued < 0.2, `${ran} of the axis is an attempt, ${queued} queued`)
  await real.kit.close(page)
})

test('the log of a long loop leads to the logs of its parts', async () => {
  const items = `1..1500`
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
