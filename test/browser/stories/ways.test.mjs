// Ways through the page: Back and dialogs, and what to compare.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

const entries = (page) => page.evaluate(() => history.length)
const path = (page) => new URL(page.url()).pathname

test('Back closes a dialog, and leaves the page only then', async () => {
  const page = await kit.open('/tasks')
  await page.getByRole('link', { name: 'reindex-search' }).click()
  const dialog = page.getByRole('dialog')
  for (const close of [() => page.goBack(), () => page.keyboard.press('Escape'), () => dialog.getByRole('button', { name: 'Close' }).first().click()]) {
    await page.getByRole('button', { name: 'Cancel…' }).click()
    await dialog.waitFor()
    await close()
    await dialog.waitFor({ state: 'detached' })
    assert.equal(path(page), `/ui/tasks/${ids.running}`)
    await page.waitForFunction(() => !history.state?.over)
  }
  await page.goBack()
  await page.getByRole('heading', { name: 'Tasks' }).waitFor()
  await kit.close(page)
})

test('a dialog with an address closes with Back, and what it starts takes its place', async () => {
  const page = await kit.open(`/tasks/${ids.done}`)
  const dialog = page.getByRole('dialog')
  const before = await entries(page)
  for (const close of [() => page.goBack(), () => page.keyboard.press('Escape')]) {
    await page.getByRole('button', { name: 'Fork…' }).click()
    await dialog.waitFor()
    assert.match(page.url(), /fork=/)
    await close()
    await dialog.waitFor({ state: 'detached' })
    await page.waitForFunction(() => !location.search.includes('fork'))
  }
  await page.getByRole('button', { name: 'Fork…' }).click()
  await dialog.getByLabel('Allow calls with effects').check()
  await dialog.getByRole('button', { name: 'Preview' }).click()
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click()
  await page.waitForFunction((id) => !location.pathname.includes(id), ids.done)
  assert.equal(await entries(page), before + 1)
  await page.goBack()
  await page.waitForFunction((id) => location.pathname.includes(id), ids.done)
  assert.equal(await dialog.count(), 0)
  await kit.close(page)
})

test('what a dialog starts has an entry of its own', async () => {
  const page = await kit.open(`/tasks/${ids.failed}`)
  await page.getByRole('button', { name: 'Retry…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry', exact: true }).click()
  await page.waitForFunction((id) => !location.pathname.includes(id), ids.failed)
  await page.goBack()
  await page.waitForFunction((id) => location.pathname.includes(id), ids.failed)
  assert.equal(await page.getByRole('dialog').count(), 0)
  await kit.close(page)
})

test('two tasks that are ticked are compared', async () => {
  const page = await kit.open('/tasks?name=nightly-report')
  const ticks = page.getByRole('checkbox', { name: 'Select nightly-report', exact: true })
  await ticks.nth(0).check()
  assert.equal(await page.getByRole('link', { name: 'Compare', exact: true }).count(), 1) // that of the menu
  await ticks.nth(1).check()
  await page.getByRole('group', { name: 'Selected tasks' }).getByRole('link', { name: 'Compare' }).click()
  await page.getByText('2 steps of both differ').waitFor()
  assert.match(page.url(), new RegExp(`a=${ids.done}&b=${ids.failed}$`))
  await kit.close(page)
})

test('the other side of a comparison is chosen from retries, forks and runs of the same plan', async () => {
  const page = await kit.open(`/tasks/${ids.failed}`)
  await page.getByRole('button', { name: 'Retry…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry', exact: true }).click()
  await page.getByText('retry of another task').waitFor()
  const retry = path(page).split('/').at(-1)
  await kit.show(page, `/compare?a=${retry}`)
  const pick = page.getByRole('combobox', { name: 'or choose one' }).last()
  await pick.locator('optgroup[label="Retries and forks"]').waitFor({ state: 'attached' })
  await settled(page)
  assert.deepEqual(await pick.locator('optgroup').evaluateAll((all) => all.map((g) => g.label)), ['Retries and forks', 'Runs of nightly-report'])
  await pick.selectOption({ label: `what it is a retry of, …${ids.failed.slice(-6)}` })
  await page.getByText('2 steps of both differ').waitFor()
  assert.match(page.url(), new RegExp(`b=${ids.failed}`))
  await kit.close(page)
})
