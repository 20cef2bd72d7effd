// Addresses with values that do not exist, and commands that do no more than the buttons beside them.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

const remove = (page, what) => page.getByRole('alert').getByRole('button', { name: `Remove ${what}`, exact: true })
const commands = (page, words) => page.getByRole('button', { name: new RegExp(`^Copy as command: orch ${words}`) })

test('acts are not listed by a filter that does not exist', async () => {
  const page = await kit.open('/audit?since=yesterday&outcome=foo')
  await page.getByText('outcome foo does not exist; one of done, refused, failed, unknown').waitFor()
  assert.equal(await page.locator('.table li').count(), 0)
  assert.equal(await commands(page, 'audit list').count(), 0)
  await settled(page)
  await accessible(page, 'refused filters of acts')
  await remove(page, 'outcome foo').click()
  await page.getByText('outcome foo').waitFor({ state: 'detached' })
  assert.equal(await page.locator('.table li').count(), 0)
  assert.equal(await page.getByRole('textbox', { name: 'Since' }).getAttribute('aria-invalid'), 'true')
  await remove(page, 'since yesterday').click()
  await page.locator('.table li').first().waitFor()
  await kit.close(page)
})

test('costs and the inbox refuse what does not exist', async () => {
  const page = await kit.open('/costs?by=nonsense&since=foo')
  await remove(page, 'by nonsense').click()
  await remove(page, 'since foo').click()
  await page.getByRole('button', { name: 'Day', pressed: true }).waitFor()
  await kit.show(page, '/inbox?kind=foo')
  await accessible(page, 'refused kind')
  await remove(page, 'kind foo').click()
  await page.getByRole('link', { name: /no worker serves queue gpu/ }).waitFor()
  await kit.close(page)
})

test('a revision and a step that a task does not have are named, beside the task', async () => {
  const page = await kit.open(`/tasks/${ids.done}?rev=999&step=zzz`)
  await page.getByRole('alert').getByText('revision 999 does not exist; the newest, 26, is shown').waitFor()
  await remove(page, 'step zzz').click()
  await remove(page, 'rev 999').click()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^publish.*Succeeded/ }).waitFor()
  assert.doesNotMatch(page.url(), /rev|step/)
  await kit.show(page, `/tasks/${ids.done}?rev=6&step=publish`)
  await page.getByText('at revision 6 of 26').waitFor()
  assert.equal(await page.getByRole('alert').count(), 0, 'the step comes later')
  await kit.close(page)
})

test('a view that a task does not have is named, and the timeline is shown', async () => {
  const page = await kit.open(`/tasks/${ids.done}?tab=nonsense`)
  await page.getByRole('alert').getByText('tab nonsense does not exist; one of timeline, graph, events, logs, files, data').waitFor()
  await page.getByRole('link', { name: 'Timeline', exact: true }).and(page.locator('[aria-current=page]')).waitFor()
  await settled(page)
  await accessible(page, 'refused view of a task')
  await remove(page, 'tab nonsense').click()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  assert.doesNotMatch(page.url(), /tab/)
  await kit.show(page, `/tasks/${ids.done}?tab=conversation`)
  await remove(page, 'tab conversation').waitFor()
  await kit.show(page, `/tasks/${ids.done}?tab=data`)
  await page.getByRole('link', { name: 'Data', exact: true }).and(page.locator('[aria-current=page]')).waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
  await kit.close(page)
})

test('no command decides about a call in doubt before a person has chosen', async () => {
  const page = await kit.open(`/inbox/${ids.doubt}`)
  await page.getByLabel(/It did not happen/).waitFor()
  assert.equal(await commands(page, 'resolve').count(), 0)
  await page.getByLabel(/It did not happen/).check()
  await commands(page, `resolve ${ids.doubt} report --as failed$`).waitFor()
  await kit.show(page, `/tasks/${ids.doubt}`)
  await page.locator('.causes .sentence').waitFor()
  assert.equal(await page.locator('.causes').getByRole('button', { name: /^Copy as command/ }).count(), 0)
  await kit.close(page)
})

test('beside a button that opens a preview, the command is a dry run', async () => {
  const page = await kit.open(`/tasks/${ids.done}`)
  await page.getByRole('button', { name: 'Hold…' }).waitFor()
  await commands(page, `fork ${ids.done} --dry-run$`).waitFor()
  assert.equal(await commands(page, 'hold TASK').count(), 0)
  await kit.show(page, `/tasks/${ids.done}?rev=6`)
  await commands(page, `replay ${ids.done} --at 6$`).waitFor()
  assert.equal(await commands(page, `fork ${ids.done} --at 6 --dry-run$`).count(), 2)
  await kit.show(page, '/sessions')
  await commands(page, 'undo .* --dry-run$').first().waitFor()
  assert.equal(await commands(page, 'undo \\S+$').count(), 0)
  await kit.close(page)
})
