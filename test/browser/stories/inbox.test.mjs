// What people do with what waits for them.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { deployApproval, ids, question } from '../places.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

test('the title of every page counts what waits', async () => {
  const page = await kit.open('/tasks')
  await page.waitForFunction(() => document.title === '(11) Tasks · orch')
  await page.getByRole('link', { name: /Inbox/ }).click()
  await page.waitForFunction(() => document.title === '(11) Inbox · orch')
  await kit.close(page)
})

test('a person reads the exact arguments, fills the form in and approves', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.getByRole('heading', { name: 'Deploy shop 1.4.2 to production?' }).waitFor()
  await page.getByText('12345678901234567890').waitFor()
  await page.getByText('./smoke.sh --retries 3').waitFor()
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  assert.equal((await kit.mock('')).length, 0, 'a required field is missing')
  await page.getByLabel('Window').selectOption({ label: 'tonight' })
  await page.getByLabel('Tell the channel').check()
  await page.getByRole('textbox', { name: /^Reason/ }).fill('as planned')
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('Approved.').waitFor()
  const [sent] = await kit.mock('')
  assert.deepEqual(sent, { verb: 'decide', id: deployApproval, body: { as: 'granted', reason: 'as planned', form: { canary: 10, window: 'tonight', notify: true } } })
  await page.waitForFunction(() => document.title.startsWith('(10)'))
  await page.getByRole('button', { name: 'Approve', exact: true }).waitFor({ state: 'detached' }) // a second click decides nothing else
  await page.getByRole('heading', { name: 'Deploy shop 1.4.2 to production?' }).waitFor()
  await kit.close(page)
})

test('the fields of a form are there still after another entry and another page', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.getByLabel('Window').selectOption({ label: 'tonight' })
  await page.getByLabel('Tell the channel').check()
  const back = async () => {
    await page.getByRole('link', { name: 'Inbox' }).click()
    await page.getByRole('link', { name: /Deploy shop 1\.4\.2/ }).first().click()
    await page.waitForURL(`**/inbox/${deployApproval}`)
    assert.equal(await page.getByLabel('Window').locator('option:checked').textContent(), 'tonight')
    assert.ok(await page.getByLabel('Tell the channel').isChecked())
  }
  await page.locator('.entry').nth(2).getByRole('link').click()
  await page.getByLabel('Window').waitFor({ state: 'detached' })
  await back()
  await page.getByRole('link', { name: 'Node', exact: true }).click()
  await page.getByRole('heading', { name: 'Node', exact: true }).waitFor()
  await back()
  await page.reload()
  assert.equal(await page.getByLabel('Window').locator('option:checked').textContent(), 'tonight')
  await kit.close(page)
})

test('what was said about one entry is gone once another one is open', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  const toast = page.locator('.toast')
  await page.getByLabel('Window').selectOption({ label: 'tonight' })
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await toast.getByText('Approved.').waitFor()
  await page.locator('.entry').nth(1).getByRole('link').click()
  await page.waitForURL((to) => !to.pathname.endsWith(deployApproval))
  await toast.waitFor({ state: 'hidden', timeout: 2000 })
  await kit.close(page)
})

test('a person rejects with a reason', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.getByRole('textbox', { name: /^Reason/ }).fill("not before Ada's tests")
  const command = page.getByRole('button', { name: /Copy as command: orch reject/ }).last()
  await command.click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `orch reject ${deployApproval} --reason 'not before Ada'\\''s tests'`)
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await page.getByText('Rejected.').waitFor()
  assert.deepEqual((await kit.mock(''))[0].body, { as: 'rejected', reason: "not before Ada's tests" })
  await kit.close(page)
})

test('the second of two deciders sees who was first', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.getByLabel('Window').selectOption({ label: 'now' })
  await page.route('**/decide', (route) => route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify({ error: { code: 'CONFLICT', message: 'user:eve has granted it meanwhile' } }) }))
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByRole('alert').getByText('user:eve has granted it meanwhile').waitFor()
  await kit.close(page)
})

test('the key a decides nothing of a high risk; Enter on the button does', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.getByLabel('Window').selectOption({ label: 'now' })
  await page.getByRole('heading', { name: 'Deploy shop 1.4.2 to production?' }).click()
  await page.keyboard.press('a')
  await page.getByText('High risk: Enter approves.').waitFor()
  assert.equal((await kit.mock('')).length, 0)
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Approve')
  await page.keyboard.press('Enter')
  await page.getByText('Approved.').waitFor()
  assert.equal((await kit.mock('')).length, 1)
  await kit.close(page)
})

test('a reason that is half typed stays, until it is used', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  const reason = page.getByRole('textbox', { name: /^Reason/ })
  await reason.fill('not on a Fri')
  await page.getByRole('link', { name: /Rotate the key of service 1/ }).click()
  await page.getByRole('heading', { name: 'Rotate the key of service 1' }).waitFor()
  assert.equal(await reason.inputValue(), '')
  await page.reload()
  await page.getByRole('link', { name: /Deploy shop/ }).click()
  await page.getByRole('heading', { name: 'Deploy shop 1.4.2 to production?' }).waitFor()
  assert.equal(await reason.inputValue(), 'not on a Fri')
  await page.getByRole('button', { name: 'Reject', exact: true }).click()
  await page.getByText('Rejected.').waitFor()
  await page.getByText(/^Rejected by user:ada, /).waitFor()
  assert.equal(await page.getByText('You had written').count(), 0)
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await kit.close(page)
})

test('an entry that somebody works on stays, also if another one decides about it', async () => {
  const page = await kit.open('/inbox')
  await page.getByRole('heading', { name: 'Deploy shop 1.4.2 to production?' }).waitFor()
  await page.getByRole('textbox', { name: /^Reason/ }).fill('I was about to')
  const headers = { 'Content-Type': 'application/json', 'X-Orch-Request': '1' }
  await fetch(`${kit.origin}/api/v1/approvals/${deployApproval}/decide`, { method: 'POST', headers, body: JSON.stringify({ as: 'rejected', reason: 'faster' }) })
  await page.getByText(/^Rejected by user:ada, /).waitFor()
  await page.getByRole('alert').getByText('It is decided. What you had written here was not sent.').waitFor()
  await page.getByText('I was about to').waitFor()
  await accessible(page, 'a decision that came too late')
  await page.getByRole('button', { name: 'Copy your reason' }).click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'I was about to')
  await page.getByRole('button', { name: 'Forget it' }).click()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await kit.close(page)
})

test('a question is answered with the form of its schema', async () => {
  const page = await kit.open(`/inbox/${question}`)
  await page.getByRole('combobox', { name: 'Account' }).selectOption({ label: 'Europe' })
  await page.getByLabel('Confirmation to').fill('ada@example.com')
  await page.getByLabel('Row limit').fill('12345678901234567')
  await page.getByRole('button', { name: 'Answer', exact: true }).click()
  await page.getByText('Answered.').waitFor()
  const [sent] = await kit.mock('')
  assert.equal(sent.body.response.action, 'accept')
  assert.equal(sent.body.response.content.account, 'eu')
  await page.getByText(/^Answered by user:ada, 20.. *.* UTC$/).waitFor()
  await kit.close(page)
})

test('a call in doubt is resolved, with its arguments in view', async () => {
  const seen = (await (await fetch(`${kit.origin}/api/v1/tasks/${ids.doubt}`)).json()).rev
  const page = await kit.open(`/inbox/${ids.doubt}`)
  await page.getByText('https://billing.example.com/charges').waitFor()
  await page.getByLabel(/It did not happen/).check()
  await page.getByRole('textbox', { name: /^Reason/ }).fill('no charge in the books')
  await page.getByRole('button', { name: 'Resolve', exact: true }).click()
  await page.getByText('Resolved.').waitFor()
  assert.deepEqual((await kit.mock(''))[0].body, { step: 'report', as: 'failed', reason: 'no charge in the books', seen_rev: seen })
  await kit.close(page)
})

test('several approvals are granted at once, after a preview', async () => {
  const page = await kit.open('/inbox?kind=approval')
  for (const i of [1, 2]) await page.getByLabel(`Select Rotate the key of service ${i}`).check()
  await page.getByLabel('Select Deploy shop 1.4.2 to production?').check()
  await page.getByRole('button', { name: 'Approve…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('left out: it has a form to fill in').waitFor()
  assert.equal((await kit.mock('')).length, 0)
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  assert.equal((await kit.mock('')).length, 2)
  await page.waitForFunction(() => document.title.startsWith('(9)'))
  await kit.close(page)
})

test('by keyboard alone: skip link, shortcuts, decision', async () => {
  const page = await kit.open('/tasks')
  await settled(page)
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main')
  await page.keyboard.press('g')
  await page.keyboard.press('i')
  await page.getByRole('heading', { name: 'Inbox' }).waitFor()
  await settled(page)
  for (let i = 0; i < 3; i++) await page.keyboard.press('j')
  await page.getByRole('heading', { name: 'Rotate the key of service 2' }).waitFor()
  await page.keyboard.press('?')
  await page.getByRole('dialog').getByText('Approve what is shown').waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('a')
  await page.getByText('Approved.').waitFor()
  assert.match((await kit.mock(''))[0].id, /ROTATE01$/)
  await kit.close(page)
})

test('a viewer sees no button that changes anything', async () => {
  await kit.mock('reset', { events: 0, tasks: 50, role: 'viewer' })
  const page = await kit.open('/inbox')
  for (const path of [`/inbox/${deployApproval}`, `/inbox/${question}`, `/inbox/${ids.doubt}`, '/tasks', `/tasks/${ids.failed}?step=publish`, '/node', '/queue']) {
    await kit.show(page, path)
    await settled(page)
    assert.equal(await page.getByRole('button', { name: /^(Approve|Reject|Answer|Decline|Resolve|Retry|Cancel|Pause|Resume|Fork|Redrive)\b/ }).count(), 0, path)
    assert.equal(await page.getByRole('checkbox', { name: /Select/ }).count(), 0, path)
  }
  await kit.close(page)
})

test('without a cookie the page says how to get one', async () => {
  await kit.mock('reset', { signedout: 1, events: 0, tasks: 1 })
  const page = await kit.open('/')
  await page.getByText('orch ui').waitFor()
  await page.getByText('a restart signs everyone out').waitFor()
  await kit.close(page)
})

test('the node is paused and resumed with a reason, and every page says so meanwhile', async () => {
  const page = await kit.open('/node')
  await page.getByRole('button', { name: 'Pause the node…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('No task of anybody starts a call').waitFor()
  await accessible(page, 'pause the node')
  assert.equal((await kit.mock('')).length, 0)
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('the disk is replaced')
  await dialog.getByRole('button', { name: 'Pause', exact: true }).click()
  await page.getByText(/^The node is paused: /).waitFor() // the dialog has gone back in the history by then
  for (const path of ['/inbox', '/tasks', `/tasks/${ids.running}`, '/node']) {
    await kit.show(page, path)
    await page.getByText(/^The node is paused: .*the disk is replaced/).waitFor()
  }
  await page.locator('.state', { hasText: /^Paused: no call starts$/ }).waitFor()
  for (const [scheme, width] of [['light', 1280], ['dark', 360]]) {
    const other = await kit.open('/queue', { scheme, width })
    await other.getByText(/^The node is paused/).waitFor()
    await settled(other)
    await accessible(other, `paused, ${scheme}, ${width}`)
    assert.ok(await other.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
    await kit.close(other)
  }
  await page.getByRole('button', { name: 'Resume…' }).click()
  await dialog.getByText(/^Node +was paused by user:ada: the disk is replaced/).waitFor()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('it is in')
  await dialog.getByRole('button', { name: 'Resume', exact: true }).click()
  await page.getByText('The node is paused').waitFor({ state: 'detached' })
  assert.deepEqual((await kit.mock('')).map((r) => [r.verb, r.body]), [['pause', { node: true, reason: 'the disk is replaced' }], ['resume', { node: true, reason: 'it is in' }]])
  await kit.close(page)
})
