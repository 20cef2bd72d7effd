// What becomes of decisions: too late, by several people, and while the node dies. On a real node.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { accessible, settled } from '../kit.mjs'
import { Real } from '../real.mjs'

const push = (name, timeout) => `orch: v1
name: ${name}
steps:
  - id: push
    tool: BASH_EXECUTE
    with: {command: 'rm -rf ./build && git push origin main'}
    approval: {timeout: ${timeout}}
`
const plans = {
  'late.yaml': push('late-push', '9s'),
  'fails.yaml': `orch: v1
name: reads-nothing
steps:
  - {id: a, tool: FILE_READ, with: {file_path: missing.txt}}
`,
  'far.yaml': `orch: v1
name: far
steps:
  - {id: train, tool: BASH_EXECUTE, queue: gpu, with: {command: 'true'}}
`,
  ...Object.fromEntries(['shop', 'blog', 'docs'].map((site) => [`${site}.yaml`, `orch: v1
name: publish-${site}
steps:
  - id: ask
    approve: {description: 'Publish it?', timeout: ${{ shop: 30, blog: 20, docs: 40 }[site]}m}
`])),
}

let real
before(async () => { real = await Real.start({}, plans) })
after(() => real?.stop())
afterEach(() => { for (const id of real.orch('list', '--state', 'BLOCKED', '--state', 'AWAITING_APPROVAL', '--state', 'NEEDS_ACTION', '--state', 'IN_PROGRESS', '-o', 'name').split('\n').filter(Boolean)) real.orch('cancel', id) })

const submit = (plan) => real.orch('submit', `${plan}.yaml`, '--detach', '-o', 'name')
const approvalOf = (task) => real.orch('approvals', task, '-o', 'name')
const read = (...args) => JSON.parse(real.orch(...args, '-o', 'json'))
const stateOf = (task) => read('get', task).state

/** asks submits a plan that asks, and returns its task and its approval. */
function asks(plan) {
  const task = submit(plan)
  return { task, approval: approvalOf(task) }
}

test('an approval expires: its entry says what was asked, and Resume leads to the new approval with the reason', async () => {
  const task = submit('late')
  const page = await real.login('/inbox?kind=approval')
  await page.getByRole('link', { name: /allow BASH_EXECUTE: rm -rf \.\/build && git push origin main/ }).waitFor()
  await page.getByRole('textbox', { name: /^Reason/ }).fill('checked by hand')
  await page.getByRole('alert').getByText('It has expired. What you had written here was not sent.').waitFor({ timeout: 30_000 })
  assert.equal(await page.getByText('It is decided').count(), 0)
  const card = page.url()
  await page.goto(`${real.kit.origin}/ui/inbox`)
  const entry = page.locator('.entry', { hasText: 'Nobody decided: allow BASH_EXECUTE: rm -rf ./build' })
  await entry.getByText('Dead letter').waitFor()
  await entry.getByRole('link').click()
  await page.getByRole('heading', { name: 'What was asked' }).waitFor()
  await page.locator('.detail code', { hasText: 'rm -rf ./build && git push origin main' }).waitFor()
  await page.getByText('Resume asks again: a new approval of the same call waits then').waitFor()
  await settled(page)
  await accessible(page, 'an entry of an approval that has expired')
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await page.getByText('The task goes on, and asks again.').waitFor()
  await page.getByRole('button', { name: 'Approve', exact: true }).waitFor()
  const next = approvalOf(task)
  assert.ok(page.url().endsWith(`/inbox/${next}`), page.url())
  assert.equal(await page.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'checked by hand')

  await page.goto(card)
  await page.getByText('Nobody decided in time, and the step asks again.').waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
  await page.getByRole('link', { name: 'Go to the new approval' }).click()
  await page.waitForURL(`**/inbox/${next}`)
  await page.goto(`${real.kit.origin}/ui/inbox/${task}`)
  await page.waitForURL(`**/inbox/${next}`)
  await real.kit.close(page)
})

async function selectAll(page, n) {
  await page.getByRole('checkbox', { name: /^Select/ }).nth(n - 1).waitFor()
  for (const box of await page.getByRole('checkbox', { name: /^Select/ }).all()) await box.check()
  await page.getByText(`${n} selected`).waitFor()
}

test('several approvals: rows name their tasks, one that somebody else decides stays and says so, and nothing stays selected', async () => {
  const [shop, blog, docs] = ['shop', 'blog', 'docs'].map(asks)
  const page = await real.login('/inbox?kind=approval')
  const dialog = page.getByRole('dialog')
  await selectAll(page, 3)
  const sent = []
  page.on('request', (r) => { if (r.method() === 'POST') sent.push(r) })
  await page.getByRole('button', { name: 'Approve…' }).click()
  for (const site of ['shop', 'blog', 'docs']) await dialog.getByText(`task publish-${site}`).waitFor()
  await dialog.getByRole('button', { name: 'Approve 3' }).waitFor()
  real.orch('reject', docs.approval, '--reason', 'not today')
  await dialog.getByText(/^left out: user:\w+ has rejected it$/).waitFor()
  assert.equal(await dialog.locator('.preview li').count(), 3)
  await accessible(page, 'an entry of many that somebody else has decided')
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByText('This has happened: 2 done.').waitFor()
  assert.equal(await dialog.locator('.result', { hasText: /^granted$/ }).count(), 2)
  await page.getByText('No approvals wait.').waitFor({ state: 'attached', timeout: 30_000 }) // a node that has just started is still finding out
  assert.equal(await dialog.locator('.preview li').count(), 3, 'what has happened stays in view')
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  assert.equal(await page.getByText(/\d selected/).count(), 0)
  const acts = sent.filter((r) => !r.postDataJSON().dry_run)
  assert.deepEqual(acts.map((r) => new URL(r.url()).pathname), ['/api/v1/tasks:bulk'], 'one act')
  assert.deepEqual([shop, blog].map((a) => read('approvals', a.approval).status), ['granted', 'granted'])
  const [act] = read('audit', 'list', '--act', 'bulk.approve', '--limit', '1').acts ?? read('audit', 'list', '--act', 'bulk.approve', '--limit', '1')
  assert.equal((act.begin ?? act).params.where, 'ids=2')
  await real.kit.close(page)
})

test('a set that changes between the look and the act is refused, and the dialog says what has changed', async () => {
  const [shop, blog] = ['shop', 'blog'].map(asks)
  const page = await real.login('/inbox?kind=approval')
  const dialog = page.getByRole('dialog')
  await selectAll(page, 2)
  await page.getByRole('button', { name: 'Approve…' }).click()
  await dialog.getByRole('button', { name: 'Approve 2' }).waitFor()
  let first = true
  await page.route('**/tasks:bulk', async (route) => {
    if (first && !route.request().postDataJSON().dry_run) {
      first = false
      real.orch('approve', blog.approval)
    }
    await route.continue()
  })
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByRole('alert').getByText('so nothing was done').waitFor()
  await dialog.getByText(/^left out: user:\w+ has granted it$/).waitFor()
  assert.equal(read('approvals', shop.approval).status, 'pending')
  await dialog.getByRole('button', { name: 'Approve 1' }).click()
  await dialog.getByText('This has happened: 1 done.').waitFor()
  assert.equal(await dialog.getByRole('alert').count(), 0)
  await real.kit.close(page)
})

test('the order is one rule for all kinds, and a stuck task comes within two seconds and is cancelled with others', async () => {
  const [shop, blog] = ['shop', 'blog'].map(asks)
  const late = submit('late')
  const far = submit('far')
  const failed = submit('fails')
  const began = Date.now()
  const page = await real.login('/inbox')
  await page.getByText('Most urgent first: what ends soonest, then what waits longest.').waitFor()
  await page.locator('.entry', { hasText: 'no worker serves queue gpu' }).waitFor({ timeout: 20_000 })
  const took = Date.now() - began
  assert.ok(took < 15_000, `${took} ms after it was submitted; it counts as stuck after 10 s`)
  for (const hasText of ['reads-nothing', 'Nobody decided']) await page.locator('.entry', { hasText }).waitFor()
  const all = await page.locator('.entry').evaluateAll((list) => list.map((e) => [e.querySelector('.cut').textContent, e.querySelector('.ends').textContent]))
  const rows = all.filter(([name]) => name !== 'publish-docs') // rejected before, and so in the dead letter
  assert.deepEqual(rows.map(([name]) => name).slice(0, 2), ['publish-blog', 'publish-shop'], 'what ends soonest')
  assert.deepEqual(rows.slice(2).map(([, ends]) => ends), ['no end', 'no end', 'no end'])
  assert.deepEqual(new Set(rows.slice(2).map(([name]) => name)), new Set(['late-push', 'far', 'reads-nothing']))
  assert.equal(await page.locator('.entry .waits').count(), all.length)
  await page.getByRole('checkbox', { name: /^Select .*queue gpu/ }).check()
  await page.getByRole('checkbox', { name: /^Select Nobody decided/ }).check()
  await page.getByText('2 selected').waitFor()
  await page.locator('.bulkbar').getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Cancel 2' }).click()
  await dialog.getByText('This has happened: 2 done.').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  assert.deepEqual([far, late].map(stateOf), ['CANCELLED', 'CANCELLED'])
  await page.locator('.entry', { hasText: 'reads-nothing' }).getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Redrive…' }).click()
  await dialog.getByRole('button', { name: 'Redrive 1' }).click()
  await dialog.getByRole('link', { name: 'another task' }).waitFor()
  assert.notEqual(stateOf(failed), '')
  assert.equal(stateOf(shop.task), stateOf(blog.task))
  await real.kit.close(page)
})

/** killed approves on a page while the node dies, before or after it has the decision, and returns the page once the node is back. */
async function killed(approval, taken) {
  const page = await real.login(`/inbox/${approval}`)
  await page.getByRole('textbox', { name: /^Reason/ }).fill('as planned')
  await page.route('**/decide', async (route) => {
    if (taken) await route.fetch()
    await real.kill('SIGKILL')
    await route.abort()
  })
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByRole('alert').getByText('It is not known whether the node took your decision to approve. This page asks again when the node answers').waitFor()
  for (const name of ['Approve', 'Reject', 'Ask for another version']) assert.ok(await page.getByRole('button', { name, exact: true }).isDisabled(), name)
  await accessible(page, 'a decision without an answer')
  await page.unroute('**/decide')
  await real.serve()
  await real.loginBeside(page)
  return page
}

test('the node dies before it has the decision: the page says that it did not take it, and decides again', async () => {
  const { approval } = asks('shop')
  const page = await killed(approval, false)
  await page.getByText('The node did not take your decision to approve. It still waits: decide again.').first().waitFor()
  assert.equal(await page.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'as planned')
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText(/^Granted by user:\w+, .*: as planned$/).waitFor()
  await page.getByRole('button', { name: 'Approve', exact: true }).waitFor({ state: 'detached' })
  await real.kit.close(page)
})

test('the node dies after it has the decision: the page says that it took it, without a button', async () => {
  const { approval } = asks('blog')
  const page = await killed(approval, true)
  await page.getByText('The node took your decision to approve.').first().waitFor()
  await page.getByText(/^Granted by user:\w+, .*: as planned$/).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Approve', exact: true }).count(), 0)
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

test('what was approved has no button any more, also if the node is gone a moment later', async () => {
  const { approval } = asks('docs')
  const page = await real.login(`/inbox/${approval}`)
  await page.route('**/decide', async (route) => {
    const response = await route.fetch()
    await real.kill('SIGKILL')
    await route.fulfill({ response })
  })
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText(/^Granted by user:\w+, /).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Approve', exact: true }).count(), 0)
  await real.serve()
  await real.kit.close(page)
})

/** manyKilled approves many on a page while the node dies, before or after it has the act, and returns the page once the node is back. */
async function manyKilled(taken) {
  const page = await real.login('/inbox?kind=approval')
  const dialog = page.getByRole('dialog')
  await selectAll(page, 2)
  await page.getByRole('button', { name: 'Approve…' }).click()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('both are ready')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Approve…' }).click()
  assert.equal(await dialog.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'both are ready', 'a reason is kept')
  await dialog.getByRole('button', { name: 'Approve 2' }).waitFor()
  await page.route('**/tasks:bulk', async (route) => {
    if (route.request().postDataJSON()?.dry_run) return route.continue()
    if (taken) await route.fetch()
    await real.kill('SIGKILL')
    await route.abort()
  })
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByRole('alert').getByText('It is not known what the node has done').waitFor()
  assert.equal(await dialog.getByText('Nothing has happened yet').count(), 0)
  assert.equal(await dialog.getByRole('button', { name: /^Approve/ }).count(), 0)
  await accessible(page, 'an act on many without an answer')
  await page.unroute('**/tasks:bulk')
  await real.serve()
  await page.getByRole('heading', { name: 'You are not signed in' }).waitFor({ timeout: 30_000 })
  await page.goto(real.orch('ui').match(/http\S+/)[0])
  return page
}

test('the node dies before it has an act on many: after the login the page says that nothing was done, and the reason is there', async () => {
  const all = ['shop', 'blog'].map(asks)
  const page = await manyKilled(false)
  await page.getByText('Approve 2 entries, to which the node had not answered: The node has done nothing of it. Do it again if it is still wanted.').waitFor()
  await accessible(page, 'what became of an act on many')
  assert.deepEqual(all.map((a) => read('approvals', a.approval).status), ['pending', 'pending'])
  await page.goto(`${real.kit.origin}/ui/inbox?kind=approval`)
  await page.getByText('The node has done nothing of it').waitFor()
  await page.getByText(/^The node has started \d+ s ago and is still finding out what is stuck\.$/).waitFor()
  await page.getByRole('button', { name: 'I have read it' }).click()
  await selectAll(page, 2)
  await page.getByRole('button', { name: 'Approve…' }).click()
  const dialog = page.getByRole('dialog')
  assert.equal(await dialog.getByRole('textbox', { name: /^Reason/ }).inputValue(), 'both are ready')
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByText('This has happened: 2 done.').waitFor()
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

test('the node dies after it has an act on many: after the login the page says what was decided by whom', async () => {
  ['shop', 'blog'].map(asks)
  const page = await manyKilled(true)
  await page.getByText(/All 2 entries have changed since, each in the same way: user:\w+ has granted it\./).waitFor()
  await page.getByText('The entries', { exact: true }).click()
  assert.equal(await page.locator('.banner li', { hasText: /^Publish it\?, task publish-\w+ · step ask · TASK_\w+: user:\w+ has granted it$/ }).count(), 2)
  await page.getByRole('button', { name: 'I have read it' }).click()
  assert.equal(await page.evaluate(() => sessionStorage.length), 0)
  await real.kit.close(page)
})

test('the connection breaks during an act on many: the dialog gets its answer by the key', async () => {
  const all = ['shop', 'blog'].map(asks)
  const page = await real.login('/inbox?kind=approval')
  const dialog = page.getByRole('dialog')
  await selectAll(page, 2)
  await page.getByRole('button', { name: 'Approve…' }).click()
  await dialog.getByRole('button', { name: 'Approve 2' }).waitFor()
  let first = true
  await page.route('**/tasks:bulk', async (route) => {
    if (!first || route.request().postDataJSON()?.dry_run) return route.continue()
    first = false
    await route.fetch()
    await route.abort()
  })
  await dialog.getByRole('button', { name: 'Approve 2' }).click()
  await dialog.getByText('This has happened: 2 done.').waitFor()
  assert.equal(await dialog.locator('.result', { hasText: /^granted$/ }).count(), 2)
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  assert.deepEqual(all.map((a) => read('approvals', a.approval).status), ['granted', 'granted'])
  assert.equal(await page.getByText('to which the node had not answered').count(), 0)
  await real.kit.close(page)
})
