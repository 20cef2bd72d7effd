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

test('a failed task leads to the comparison with its retry, which says why there is no output', async () => {
  const page = await kit.open(`/tasks/${ids.failed}`)
  await page.getByRole('button', { name: 'Retry…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry', exact: true }).click()
  await page.getByText('retry of another task').waitFor()
  const retry = path(page).split('/').at(-1)
  await kit.show(page, `/compare?a=${ids.failed}`)
  const pick = page.getByRole('combobox', { name: 'or choose one' }).last()
  await pick.locator('option', { hasText: /^its retry: nightly-report, .*, just now, …/ }).waitFor({ state: 'attached' })
  await kit.show(page, `/tasks/${ids.failed}`)
  await page.getByText(/The newest retry of it is/).waitFor()
  await page.getByRole('link', { name: 'Compare both' }).click()
  await page.waitForURL(new RegExp(`a=${ids.failed}&b=${retry}$`))
  await kit.show(page, `/compare?a=${ids.done}&b=${ids.failed}`)
  await page.getByRole('region', { name: 'Differences of output' }).getByText(/^none: the task has failed: /).waitFor()
  await kit.close(page)
})

test('two tasks that are ticked are compared, and are ticked still on the way back', async () => {
  const page = await kit.open('/tasks?name=nightly-report')
  const ticks = page.getByRole('checkbox', { name: 'Select nightly-report', exact: true })
  await ticks.nth(0).check()
  assert.equal(await page.getByRole('link', { name: 'Compare', exact: true }).count(), 1) // that of the menu
  await ticks.nth(1).check()
  await page.getByRole('group', { name: 'Selected tasks' }).getByRole('link', { name: 'Compare' }).click()
  await page.getByText('2 steps of both differ').waitFor()
  assert.match(page.url(), new RegExp(`a=${ids.done}&b=${ids.failed}$`))
  await page.goBack()
  await page.getByText('2 selected').waitFor()
  assert.deepEqual(await Promise.all([0, 1].map((n) => ticks.nth(n).isChecked())), [true, true])
  await page.getByLabel('Name').fill('nightly')
  await page.waitForURL(/name=nightly$/)
  await page.getByText('2 selected').waitFor({ state: 'detached' }) // another list has no ticks
  await kit.close(page)
})

test('all, none and a range are chosen, and a bulk act tells its tasks apart', async () => {
  const page = await kit.open('/tasks?name=rotate-key')
  const tick = (n) => page.getByLabel(`Select rotate-key-${n}`)
  await tick(1).click()
  await tick(3).click({ modifiers: ['Shift'] })
  await page.getByText('3 selected').waitFor()
  await page.getByRole('button', { name: 'Select all 4' }).click()
  await page.getByText('4 selected').waitFor()
  await page.getByRole('button', { name: 'Select none' }).click()
  await tick(2).check()
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/^Awaiting approval · team=ops · submitted 20.* UTC · TASK_[0-9A-Z]{26}$/).waitFor()
  await dialog.getByLabel(/^Reason/).fill('not needed')
  await dialog.getByRole('button', { name: 'Cancel 1' }).click()
  await dialog.getByText('cancelled', { exact: true }).waitFor()
  await dialog.getByText(/^team=ops · submitted/).waitFor() // the state before is not shown as that of now
  assert.deepEqual((await kit.mock(''))[0].body, { reason: 'not needed' })
  await kit.close(page)
})

test('at 360 pixels events have their time and steps how long they took', async () => {
  const page = await kit.open(`/tasks/${ids.done}?tab=events`, { width: 360, height: 740 })
  const time = page.locator('.log time').first()
  await time.waitFor()
  assert.match(await time.innerText(), /^\d\d:\d\d:\d\d\.\d{3}$/)
  await page.getByRole('link', { name: 'Timeline' }).click()
  await page.locator('.took', { hasText: '5.2s' }).waitFor()
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360))
  await kit.close(page)
})

test('a fork that would be refused cannot be started', async () => {
  const page = await kit.open(`/tasks/${ids.failed}?fork=5`)
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Preview' }).click()
  const fork = dialog.getByRole('button', { name: 'Fork', exact: true })
  await fork.waitFor()
  assert.equal(await fork.isDisabled(), true)
  await dialog.getByLabel('Allow calls with effects').check()
  assert.equal(await fork.isDisabled(), false)
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
  const end = `…${ids.failed.slice(-6)}`
  const labels = await pick.locator('option').allTextContents()
  const origin = labels.find((l) => l.startsWith('what it is a retry of: nightly-report, Failed, ') && l.endsWith(end))
  assert.ok(origin, labels.join(' | '))
  await pick.selectOption({ label: origin })
  await page.getByText('2 steps of both differ').waitFor()
  assert.match(page.url(), new RegExp(`b=${ids.failed}`))
  await kit.close(page)
})
