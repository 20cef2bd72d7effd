// Lists of tasks, and one task.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 300 }))

/** revOf returns the revision of a task, which a decision about it names. */
const revOf = async (id) => (await (await fetch(`${kit.origin}/api/v1/tasks/${id}`)).json()).rev

test('filters are in the address', async () => {
  const page = await kit.open('/tasks?state=FAILED')
  await page.getByRole('button', { name: /^Failed/, pressed: true }).waitFor()
  await page.getByLabel('Name').fill('nightly-*')
  await page.getByLabel('Name').press('Enter')
  await page.waitForURL(/name=nightly-\*/)
  await page.reload()
  assert.equal(await page.getByLabel('Name').inputValue(), 'nightly-*')
  await settled(page)
  const names = await page.locator('.table li a').allTextContents()
  assert.ok(names.length > 0 && names.every((n) => n.startsWith('nightly-')), names.join())
  await page.getByRole('link', { name: 'nightly-report', exact: true }).first().click()
  await page.goBack()
  await page.waitForURL(/state=FAILED.*name=nightly/)
  await kit.close(page)
})

test('a filter that does not exist is refused, and can be removed', async () => {
  const page = await kit.open('/tasks?state=foo&state=FAILED&since=zzz')
  const alert = page.getByRole('alert')
  await alert.getByText('state foo does not exist; one of NEEDS_ACTION, ').waitFor()
  await alert.getByText('since zzz does not exist; one of 1h, 24h, 7d').waitFor()
  assert.equal(await page.locator('.table li').count(), 0)
  await accessible(page, 'refused filters')
  await alert.getByRole('button', { name: 'Remove state foo' }).click()
  await alert.getByText('state foo').waitFor({ state: 'detached' })
  await alert.getByRole('button', { name: 'Remove since zzz' }).press('Enter')
  await page.getByRole('button', { name: /^Failed/, pressed: true }).waitFor()
  assert.match(page.url(), /\/tasks\?state=FAILED$/)
  await kit.close(page)
})

test('a part of a name finds its tasks', async () => {
  const page = await kit.open('/tasks')
  await settled(page)
  const sum = page.locator('.sum')
  const all = await sum.innerText()
  assert.ok(!all.startsWith('0 '), all)
  await page.getByLabel('Name').pressSequentially('report')
  await page.waitForURL(/name=report/) // without Enter
  await settled(page)
  const names = await page.locator('.table li a').allTextContents()
  assert.ok(names.length > 0 && names.every((n) => n.includes('report')), names.join())
  assert.notEqual(await sum.innerText(), all)
  await kit.close(page)
})

test('many tasks are cancelled after a preview; those that ended are left out', async () => {
  const page = await kit.open('/tasks')
  await page.getByLabel('Select reindex-search').check()
  await page.getByLabel('Select deploy-shop').check()
  await page.getByLabel('Select nightly-report', { exact: true }).first().check()
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('left out: it has ended').waitFor()
  assert.equal((await kit.mock('')).length, 0)
  await dialog.getByRole('button', { name: 'Cancel 2' }).click()
  await dialog.getByText('done').first().waitFor()
  assert.deepEqual((await kit.mock('')).map((r) => r.id).sort(), [ids.deploy, ids.running].sort())
  await kit.close(page)
})

test('new tasks and changes appear by themselves', async () => {
  const page = await kit.open('/tasks')
  await settled(page)
  await kit.mock('change', { name: 'fresh-task' })
  await page.getByRole('link', { name: 'fresh-task' }).waitFor()
  await kit.mock('change', { id: ids.running })
  await page.locator('li', { hasText: 'reindex-search' }).getByText('Done').waitFor()
  await kit.close(page)
})

test('a step is retried from the page', async () => {
  const seen = await revOf(ids.failed)
  const page = await kit.open(`/tasks/${ids.failed}`)
  await page.getByRole('button', { name: /^publish/ }).click()
  await page.getByRole('button', { name: 'Retry from here…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('reuses the recorded results of 6 steps').waitFor()
  await dialog.getByRole('button', { name: 'Retry from publish' }).click()
  await page.getByRole('link', { name: 'retry of another task' }).waitFor()
  assert.deepEqual(await kit.mock(''), [{ verb: 'retry', id: ids.failed, body: { seen_rev: seen, from: 'publish' } }])
  await kit.close(page)
})

test('the slider shows the task at a revision, and calls nothing', async () => {
  const page = await kit.open(`/tasks/${ids.done}`)
  await settled(page)
  const slider = page.getByRole('slider', { name: 'Revision' })
  await slider.fill('6')
  const heading = page.locator('.heading')
  await heading.getByText('at revision 6 of 26').waitFor()
  await page.waitForURL(/rev=6/)
  await heading.getByText('In progress').waitFor()
  assert.equal(await page.getByText('Done', { exact: true }).count(), 0)
  assert.equal(await page.getByText('The task is done.').count(), 0)
  await page.getByRole('button', { name: /^files.*Running/ }).waitFor()
  assert.equal(await page.getByRole('button', { name: /^notes/ }).count(), 0)
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.getByRole('button', { name: /^publish.*Succeeded/ }).waitFor()
  assert.equal((await kit.mock('')).length, 0)
  await kit.close(page)
})

test('a fork is previewed before it starts', async () => {
  const page = await kit.open(`/tasks/${ids.done}?rev=8`)
  await page.getByRole('button', { name: 'Fork here…' }).click()
  const dialog = page.getByRole('dialog')
  assert.equal(await dialog.getByLabel('Cut at revision or step').inputValue(), '8')
  await dialog.getByLabel('Input depth').fill('500')
  await dialog.getByRole('button', { name: 'Preview' }).click()
  const described = await dialog.getByRole('region', { name: 'What the fork would do' }).innerText()
  for (const line of ['stands on revision 8', 'status, files, notes', 'notes (FILE_WRITE, write)', 'publish (GIT_PUSH, write)']) assert.ok(described.includes(line), described)
  await dialog.getByLabel('Allow calls with effects to happen again').check()
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click()
  await page.getByRole('link', { name: 'retry of another task' }).waitFor()
  const sent = await kit.mock('')
  assert.deepEqual(sent.map((r) => r.body.dry_run ?? false), [true, false])
  assert.deepEqual(sent[1].body.set, { depth: 500 })
  await kit.close(page)
})

test('two runs are compared', async () => {
  const page = await kit.open(`/compare?a=${ids.done}&b=${ids.failed}`)
  await page.getByRole('row', { name: /publish.state/ }).getByText('failed').waitFor()
  await kit.close(page)
})

test('a node that goes away is announced, and nothing is lost or doubled', async () => {
  const page = await kit.open(`/tasks/${ids.running}?tab=events`)
  await settled(page)
  const count = () => page.locator('.events [role=status]').textContent()
  assert.equal(await count(), '22 events')
  await kit.mock('away')
  await page.getByRole('alert').getByText('The node is away').waitFor()
  await kit.mock('back')
  await kit.mock('change', { id: ids.running })
  await page.getByRole('alert').getByText('The node is away').waitFor({ state: 'detached' })
  await page.waitForFunction(() => document.querySelector('.events [role=status]')?.textContent === '24 events')
  await page.locator('.facts-line').getByText('Done').waitFor()
  await kit.close(page)
})

test('after a lost connection the list goes on where it was; only what may be missing is read again', async () => {
  await kit.mock('reset', { events: 0, tasks: 20 })
  const page = await kit.open('/tasks')
  await settled(page)
  const reads = []
  page.on('request', (r) => { if (/\/api\/v1\/(tasks|events)\b/.test(r.url())) reads.push(new URL(r.url())) })
  const away = page.getByRole('alert').getByText('The node is away')
  await kit.mock('away')
  await away.waitFor()
  await kit.mock('change', { name: 'came-meanwhile' })
  await kit.mock('back')
  await page.getByRole('link', { name: 'came-meanwhile' }).waitFor()
  await away.waitFor({ state: 'detached' })
  await settled(page)
  assert.equal(await page.getByRole('link', { name: 'came-meanwhile' }).count(), 1)
  assert.deepEqual(reads.filter((u) => u.pathname.endsWith('/tasks')), [], 'the list was not read again')
  assert.ok(reads.every((u) => /^\d+-\d+$/.test(u.searchParams.get('after') ?? '')), reads.join())
  const again = page.waitForRequest((r) => new URL(r.url()).pathname === '/api/v1/tasks')
  await kit.mock('reset', { events: 0, tasks: 20 }) // another node: the position is unknown there
  await again
  await page.getByRole('link', { name: 'came-meanwhile' }).waitFor({ state: 'detached' })
  await kit.close(page)
})

test('hostile text is text', async () => {
  for (const path of ['/tasks', `/tasks/${ids.hostile}`, `/inbox/APR_${ids.hostile.slice(5)}_HOSTILEA`]) {
    const page = await kit.open(path)
    await settled(page)
    await page.getByText('U+202E').first().waitFor()
    assert.equal(await page.locator('img, script:not([src])').count(), 0)
    assert.ok(!/[\u202E\u200B\u001B]/.test(await page.locator('body').innerText()), path)
    await kit.close(page)
  }
})

test('at 360 pixels nothing is cut off', async () => {
  for (const path of ['/inbox', `/tasks/${ids.deploy}`, '/tasks', '/queue', '/sessions', '/node', `/compare?a=${ids.done}&b=${ids.failed}`]) {
    const page = await kit.open(path, { width: 360, height: 740 })
    await settled(page)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360 && document.querySelector('main').scrollWidth <= 360), path)
    await kit.close(page)
  }
})

test('the theme is kept', async () => {
  const page = await kit.open('/node')
  await page.getByRole('button', { name: /Theme/ }).click()
  await page.getByRole('button', { name: /Theme/ }).click()
  await page.reload()
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(15, 17, 21)')
  await kit.close(page)
})

test('a task is cancelled with a reason, after a confirmation', async () => {
  const seen = await revOf(ids.running)
  const page = await kit.open(`/tasks/${ids.running}`)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('with its children and its running calls').waitFor()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('wrong index')
  assert.equal((await kit.mock('')).length, 0)
  await dialog.getByRole('button', { name: 'Cancel 1' }).click()
  await dialog.getByText('This has happened').waitFor()
  assert.deepEqual(await kit.mock(''), [{ verb: 'cancel', id: ids.running, body: { reason: 'wrong index', seen_rev: seen } }])
  await kit.close(page)
})
