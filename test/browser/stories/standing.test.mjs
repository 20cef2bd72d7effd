// Somebody sees how things stand: a task that was retried, and a node that is paused, on a real node.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, settled } from '../kit.mjs'
import { Real } from '../real.mjs'

let real
before(async () => { real = await Real.start() })
after(() => real?.stop())

test('a failed task leads to its newest retry, and says how that one stands', async () => {
  real.write('flaky.json', JSON.stringify({ orch: 'v1', name: 'flaky', steps: [{ id: 'read', tool: 'FILE_READ', with: { file_path: `${real.project}/notes.txt` } }] }))
  const task = real.orch('submit', 'flaky.json', '--detach', '-o', 'name')
  assert.throws(() => real.orch('result', task))
  const page = await real.login(`/tasks/${task}`)
  await page.locator('.causes .sentence').waitFor()
  assert.equal(await page.locator('.causes').getByText('The newest retry of it').count(), 0)
  real.write('notes.txt', 'milk')
  const retry = real.orch('retry', task, '--detach', '-o', 'name')
  real.orch('result', retry)
  await page.reload()
  await page.locator('.causes').getByText(`The newest retry of it is DONE: ${retry}.`).waitFor()
  assert.match(real.orch('explain', task), /The newest retry of it is DONE/)
  await settled(page)
  await accessible(page, 'a task that was retried')
  await page.locator('.causes').getByRole('link', { name: 'Open the task' }).click()
  await page.waitForURL((url) => url.pathname.endsWith(retry))
  await real.kit.close(page)
})

test('the page of the node shows the disk, the store and that it is paused', async () => {
  const page = await real.login('/node')
  const fact = (name) => page.locator('dl.facts div', { has: page.getByText(name, { exact: true }) }).locator('dd')
  assert.match(await fact('Disk').textContent(), /^[\d.]+ [MGTP]iB free; below [\d.]+ [KMG]iB the log takes nothing$/)
  assert.match(await fact('Size of the store').textContent(), /^[\d.]+ (B|KiB|MiB), (at most [\d.]+ [MGT]iB|without a limit of its own)$/)
  assert.equal(await page.getByText('Paused: no call starts', { exact: true }).count(), 0)
  real.orch('pause', '--node', '--reason', 'upgrade')
  await page.reload()
  await page.getByText('Paused: no call starts', { exact: true }).waitFor()
  await settled(page)
  await accessible(page, 'a paused node')
  real.orch('resume', '--node')
  await page.reload()
  await page.getByText('Ready', { exact: true }).waitFor()
  assert.equal(await page.getByText('Paused: no call starts', { exact: true }).count(), 0)
  await real.kit.close(page)
})
