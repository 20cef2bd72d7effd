// Retention and holds: on the page of the node, and on that of a task.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { Real } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())

const copied = (page) => page.evaluate(() => navigator.clipboard.readText())
const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)
const button = (page, name) => page.getByRole('button', { name, exact: true })
const region = (page, name) => page.getByRole('region', { name, exact: true })

test('a viewer sees what would be removed and what is held, and ends no hold', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, role: 'viewer' })
  const page = await kit.open('/node', { width: 360 })
  const holds = page.locator('table', { hasText: 'case 4711' })
  await holds.waitFor()
  assert.equal(await region(page, 'Rules of retention').count(), 0, 'the node is asked when somebody wants to know')
  await button(page, 'What would be removed now?').click()
  const rules = region(page, 'Rules of retention')
  await rules.getByText(/label env=<img src=x onerror=alert\(1\)>/).waitFor()
  await rules.getByText(', about 5.1 MiB').waitFor()
  await page.getByText('1 task would be due, but is held.').waitFor()
  await page.getByText('s3://records/orch').waitFor()
  await region(page, 'Tasks that are due').getByRole('link').first().waitFor()
  await settled(page)
  await page.locator('main').evaluate((box) => box.scrollTo(0, 0)) // axe judges no text that is out of sight
  await accessible(page, 'retention')
  assert.ok(await fits(page))
  assert.equal(await page.getByRole('button', { name: /^Release/ }).count(), 0)
  await page.getByRole('checkbox', { name: 'Those that have ended' }).check()
  await page.getByText('it is closed').waitFor()
  await page.locator('main').evaluate((box) => box.scrollTo(0, 0))
  await accessible(page, 'holds that have ended')
  await kit.show(page, `/tasks/${ids.failed}`)
  await page.getByText('Held: case 4711').waitFor()
  assert.equal(await button(page, 'Hold…').count(), 0)
  await kit.close(page)
})

test('an operator holds a task for a reason, and releases it with a note', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open(`/tasks/${ids.failed}`)
  await button(page, 'Hold…').click()
  const dialog = page.getByRole('dialog')
  await button(dialog, 'Hold').click()
  await dialog.getByRole('alert').getByText('Write why').waitFor()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('<b>case</b> 12')
  await dialog.getByRole('button', { name: /^Copy as command/ }).click()
  assert.equal(await copied(page), `orch hold ${ids.failed} --reason '<b>case</b> 12'`)
  await accessible(page, 'hold a task')
  await button(dialog, 'Hold').click()
  await page.getByText('Held: <b>case</b> 12').waitFor()
  await button(page, 'Release the hold for case 4711').click()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('closed')
  await accessible(page, 'release a hold')
  await button(dialog, 'Release').click()
  await page.getByText('Held: case 4711').waitFor({ state: 'detached' })
  await page.getByText('Held: <b>case</b> 12').waitFor()
  assert.deepEqual((await kit.mock('state')).map((r) => r.body), [{ ids: [ids.failed], reason: '<b>case</b> 12' }, { ids: [ids.failed], reason: 'case 4711', note: 'closed' }])
  await kit.show(page, `/tasks/${ids.done}`)
  await page.getByText(/through a task of its family/).waitFor()
  await settled(page)
  await accessible(page, 'a task whose family is held')
  await kit.close(page)
})

test('without holds the page says how to make one', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, services: 'none' })
  const page = await kit.open('/node')
  await page.getByText('No task is held.').waitFor()
  await button(page, 'What would be removed now?').click()
  await page.getByText('Nothing is due.').waitFor()
  await accessible(page, 'nothing is due')
  await kit.close(page)
})

const plan = 'orch: v1\nname: note\nsteps:\n  - {id: say, set: {at: "now"}}\n'

test('on a real node a task is due, is held, and is due again', async () => {
  const real = await Real.start({ ORCH_RETAIN: '[{where: {name: note}, done: 1s}]' }, { 'plan.yaml': plan })
  try {
    const task = real.orch('submit', 'plan.yaml', '-o', 'name')
    real.orch('archive', '--age', '0s', '--wait')
    const page = await real.login('/node')
    await button(page, 'What would be removed now?').click()
    const due = region(page, 'Tasks that are due').getByRole('link', { name: 'note' })
    await due.or(page.getByText('Nothing is due.')).waitFor()
    while (!await due.isVisible()) { // a second has to pass
      const answer = page.waitForResponse((r) => r.url().includes('/retention'))
      await button(page, 'What would be removed now?').click()
      await answer
      await settled(page)
    }
    await accessible(page, 'retention of a node')
    await due.click()
    await page.getByRole('heading', { name: 'note' }).waitFor()
    await button(page, 'Hold…').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox', { name: /^Reason/ }).fill('case 4711')
    await button(dialog, 'Hold').click()
    await page.getByText('Held: case 4711').waitFor()
    const [held] = JSON.parse(real.orch('hold', 'list', '--json'))
    assert.deepEqual([held.task, held.reason], [task, 'case 4711'])
    await real.kit.show(page, `/node`)
    await button(page, 'What would be removed now?').click()
    await page.getByText('1 task would be due, but is held.').waitFor()
    await region(page, 'Holds').last().getByRole('button', { name: 'Release the hold for case 4711' }).click()
    await button(dialog, 'Release').click()
    await page.getByText('No task is held.').waitFor()
    await real.kit.show(page, `/audit?act=hold.*`)
    await page.getByRole('link', { name: 'hold.release' }).waitFor()
    await page.getByRole('link', { name: 'hold.place' }).waitFor()
    await real.kit.close(page)
  } finally {
    await real.stop()
  }
})
