// Acts on one task to which the node has not answered: what the page says meanwhile, and what became of them.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { Real } from '../real.mjs'

let kit
let real
before(async () => {
  kit = await start()
  real = await Real.start({}, {
    'fails.yaml': 'orch: v1\nname: reads-nothing\nsteps:\n  - {id: a, tool: FILE_READ, with: {file_path: missing.txt}}\n',
    'waits.yaml': 'orch: v1\nname: waits\nsteps:\n  - {id: a, wait: {signal: go}}\n',
  })
})
after(async () => { await kit?.stop(); await real?.stop() })
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

const unknown = (page, verb) => page.getByRole('alert').getByText(`It is not known whether the node took your request to ${verb}: it has not answered.`)

/** killed presses a button on a page of a task while the node dies, before or after it has the request, and returns the page once the node is back. */
async function killed(path, button, verb, taken, press = (page) => page.getByRole('button', { name: button, exact: true }).click()) {
  const page = await real.login(path)
  await page.route(`**/${verb}`, async (route) => {
    if (taken) await route.fetch()
    await real.kill('SIGKILL')
    await route.abort()
  })
  await press(page)
  await unknown(page, verb).waitFor()
  assert.equal(await page.getByRole('button', { name: button, exact: true, disabled: false }).count(), 0)
  assert.equal(await page.getByText('the node cannot be reached').count(), 0)
  await accessible(page, `${verb} without an answer`)
  await page.unroute(`**/${verb}`)
  await real.serve()
  await real.loginBeside(page)
  return page
}

const read = (page, text) => page.getByRole('status').filter({ hasText: text }).first().waitFor()

test('the node dies before it has a redrive: the page says that it did not take it, and redrives again', async () => {
  const task = real.orch('submit', 'fails.yaml', '--detach', '-o', 'name')
  const page = await killed(`/inbox/${task}`, 'Redrive', 'redrive', false)
  await read(page, 'The node had not answered to your request to redrive. It did not take it: the task is as it was. Do it again if it is still wanted.')
  await page.getByRole('button', { name: 'I have read it' }).click()
  await page.getByText('It did not take it').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Redrive', exact: true }).click()
  await page.waitForURL((url) => /\/tasks\/TASK_/.test(url.pathname) && !url.pathname.endsWith(task))
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

test('the node dies after it has a redrive: the page says what continues the task', async () => {
  const task = real.orch('submit', 'fails.yaml', '--detach', '-o', 'name')
  const page = await killed(`/inbox/${task}`, 'Redrive', 'redrive', true)
  await page.getByText('This task no longer waits for you.').waitFor()
  await read(page, /^The node had not answered to your request to redrive\. .*TASK_/)
  await accessible(page, 'what became of a redrive')
  assert.equal(real.orch('list', '--name', 'reads-nothing', '-o', 'name').split('\n').length, 4, 'each was redriven once')
  await real.kit.close(page)
})

test('the node dies after it has paused a task: the page says how the task stands', async () => {
  const task = real.orch('submit', 'waits.yaml', '--detach', '-o', 'name')
  const page = await killed(`/tasks/${task}`, 'Pause', 'pause', true)
  await read(page, 'The node had not answered to your request to pause. The task has changed since: when the node answered again, it was in progress and paused.')
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  await real.kit.close(page)
})

/** confirmed cancels a task in the dialog, with a reason. */
async function confirmed(page) {
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('no longer wanted')
  await dialog.getByRole('button', { name: 'Cancel 1' }).click()
  await dialog.waitFor({ state: 'detached' })
}

test('the node dies before it has a cancel: the page says that it did not take it, and the reason is still there', async () => {
  const task = real.orch('submit', 'waits.yaml', '--detach', '-o', 'name')
  const page = await killed(`/tasks/${task}`, 'Cancel…', 'cancel', false, confirmed)
  await read(page, 'The node had not answered to your request to cancel. It did not take it: the task is as it was. Do it again if it is still wanted.')
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  assert.equal(await dialog.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'no longer wanted')
  await dialog.getByRole('button', { name: 'Cancel 1' }).click()
  await dialog.getByText('This has happened: 1 done.').waitFor()
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

test('the node dies after it has a cancel: the page says that the task is cancelled', async () => {
  const task = real.orch('submit', 'waits.yaml', '--detach', '-o', 'name')
  const page = await killed(`/tasks/${task}`, 'Cancel…', 'cancel', true, confirmed)
  await read(page, 'The node had not answered to your request to cancel. The task has changed since: when the node answered again, it was cancelled.')
  await page.getByRole('button', { name: 'I have read it' }).click()
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

/** resolved resolves a call in doubt whose answer is lost, before or after the node has it. */
async function resolved(taken) {
  const page = await kit.open(`/inbox/${ids.doubt}`)
  let away = true
  await page.route('**/explain', (route) => (away ? route.abort() : route.continue()))
  await page.getByLabel(/It did not happen/).check()
  await page.getByRole('textbox', { name: /^Reason/ }).fill('no charge in the books')
  await page.route('**/resolve', async (route) => {
    if (taken) await route.fetch()
    await route.abort()
  })
  await page.getByRole('button', { name: 'Resolve', exact: true }).click()
  await unknown(page, 'resolve step report').waitFor()
  if (!taken) assert.ok(await page.getByRole('button', { name: 'Resolve', exact: true }).isDisabled())
  await page.unroute('**/resolve')
  away = false
  return page
}

test('a resolution without an answer was not taken: its reason is still there', async () => {
  const page = await resolved(false)
  await read(page, 'It did not take it: the task is as it was.')
  assert.equal(await page.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'no charge in the books')
  await page.getByRole('button', { name: 'Resolve', exact: true }).click()
  await page.getByText('Resolved.').waitFor()
  await kit.close(page)
})

test('a resolution without an answer was taken: the page says how the task stands', async () => {
  const page = await resolved(true)
  await read(page, 'The node had not answered to your request to resolve step report. The task has changed since')
  await page.getByRole('button', { name: 'Resolve', exact: true }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'I have read it' }).click()
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await kit.close(page)
})
