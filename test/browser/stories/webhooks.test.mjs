// The page of the webhooks: hooks, which come in, and destinations, which go out.
import assert from 'node:assert/strict'
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { Real } from '../real.mjs'

let kit, old
before(async () => {
  kit = await start()
  old = await removed() // a minute has to pass there
})
after(async () => {
  await kit.stop()
  await old?.stop()
})

const copied = (page) => page.evaluate(() => navigator.clipboard.readText())
const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)
const button = (page, name) => page.getByRole('button', { name, exact: true })

test('a viewer sees both directions, what fails and why, and no buttons', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, role: 'viewer' })
  const page = await kit.open('/tasks', { width: 360 })
  await page.getByRole('link', { name: 'Webhooks' }).click()
  const deploy = page.getByRole('row', { name: /deploy/ })
  await deploy.getByText('GitHub').waitFor()
  await deploy.getByText(/3 refused: inputs.ref: <img src=x onerror=alert\(1\)>/).waitFor()
  await deploy.getByText(/2 rejected: no signature is right/).waitFor()
  await page.getByRole('row', { name: /restored/ }).getByText('Without secret').waitFor()
  const pager = page.getByRole('row', { name: /pager/ })
  await pager.getByText('task.failed, approval.*').waitFor()
  await pager.getByText(/1 event, the oldest from 1h ago/).waitFor()
  await pager.getByText('Failing').waitFor()
  await settled(page)
  await accessible(page, 'webhooks of a viewer')
  assert.ok(await fits(page))
  await page.getByRole('link', { name: 'deploy' }).click()
  await page.getByRole('region', { name: 'Last deliveries' }).getByRole('link', { name: ids.done }).waitFor()
  for (const name of ['Pause…', 'Delete…', 'Rotate the secret…', 'Try a delivery…']) assert.equal(await button(page, name).count(), 0, name)
  await page.getByRole('link', { name: '← All webhooks' }).click()
  await page.getByRole('link', { name: 'pager' }).click()
  const deliveries = page.getByRole('region', { name: 'Deliveries' })
  await deliveries.getByText('Dead letter', { exact: true }).first().waitFor()
  assert.equal(await deliveries.getByRole('button').count(), 0)
  assert.equal(await button(page, 'Send a test').count(), 0)
  assert.ok(await fits(page))
  await kit.close(page)
})

test('an operator tries, pauses with a reason, and deletes a hook', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/webhooks/hook/deploy')
  await button(page, 'Try a delivery…').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox', { name: /^Body/ }).fill(`{"ref": "it's"}`)
  await dialog.getByRole('button', { name: /^Copy as command: / }).click()
  assert.equal(await copied(page), `printf %s '{"ref": "it'\\''s"}' | orch hook test deploy --body - --event push`)
  await button(dialog, 'What would happen?').click()
  await dialog.getByText('Accepted').waitFor()
  await dialog.getByText(/<img src=x onerror=alert\(1\)>/).waitFor()
  await accessible(page, 'a tried delivery')
  await page.keyboard.press('Escape')
  await button(page, 'Pause…').click()
  await dialog.getByRole('textbox', { name: /^Reason/ }).fill('frozen')
  await dialog.getByRole('button', { name: /^Copy as command/ }).click()
  assert.equal(await copied(page), 'orch hook pause deploy --note frozen')
  await accessible(page, 'pause a hook')
  await button(dialog, 'Pause').click()
  await page.getByText(/by user:ada, just now: frozen/).waitFor()
  await button(page, 'Resume').click()
  await button(page, 'Pause…').waitFor()
  await button(page, 'Delete…').click()
  await dialog.getByText(/Its tasks stay\./).waitFor()
  await accessible(page, 'delete a hook')
  await button(dialog, 'Delete').click()
  await page.waitForURL('**/webhooks')
  await page.getByRole('link', { name: 'button' }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'deploy' }).count(), 0)
  assert.deepEqual((await kit.mock('state')).map((r) => [r.verb, r.body.note]), [['test', undefined], ['pause', 'frozen'], ['resume', undefined], ['delete', undefined]])
  await kit.close(page)
})

test('dead letters are redelivered after a look at them, all or one', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/webhooks/destination/pager')
  await button(page, 'Send a test').click()
  await page.getByText('Test failed').waitFor()
  await button(page, 'Redeliver 2 dead letters…').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('the receiver answered 500').waitFor()
  assert.equal(await dialog.getByRole('listitem').count(), 2)
  await accessible(page, 'redeliver')
  await page.keyboard.press('Escape')
  assert.equal((await kit.mock('state')).length, 1, 'a preview does nothing')
  const deliveries = page.getByRole('region', { name: 'Deliveries' })
  await deliveries.getByRole('button', { name: `Redeliver ${ids.done}-7-0` }).click()
  await button(page, 'Redeliver 1 dead letter…').click()
  await button(dialog, 'Redeliver 1').click()
  await page.getByText('1 dead letter waits for delivery again.').waitFor()
  await deliveries.getByText('Dead letter', { exact: true }).first().waitFor({ state: 'detached' })
  assert.deepEqual((await kit.mock('state')).slice(1).map((r) => r.body.deliveries), [[`${ids.done}-7-0`], [`${ids.failed}-7-0`]], 'exactly those that were shown')
  await kit.show(page, `/webhooks/destination/books`)
  await button(page, 'Send a test').click()
  await page.getByText('the receiver answered 204').waitFor()
  await kit.close(page)
})

test('a new secret is shown once', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/webhooks/destination/pager')
  await button(page, 'Rotate the secret…').click()
  const dialog = page.getByRole('dialog')
  assert.equal(await dialog.getByText(/whsec_/).count(), 0, 'not before the node has taken it')
  await dialog.getByRole('combobox').selectOption('1h')
  await button(dialog, 'Rotate').click()
  const secret = await dialog.locator('code.secret').textContent()
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  await accessible(page, 'a new secret')
  const [sent] = await kit.mock('state')
  assert.deepEqual(sent.body, { secret, keep: '1h' })
  await button(dialog, 'Done').click()
  const left = await page.evaluate(() => document.documentElement.outerHTML + location.href + JSON.stringify({ ...localStorage, ...sessionStorage, state: history.state }))
  assert.ok(!left.includes(secret.slice(6, 30)))
  await page.getByText('the one before signs too until').waitFor()
  await button(page, 'Rotate the secret…').click()
  await kit.mock('away')
  await button(dialog, 'Rotate').click()
  await dialog.getByText('If the node has taken it after all').waitFor()
  const kept = await dialog.locator('code.secret').textContent()
  assert.notEqual(kept, secret)
  await kit.mock('back')
  await button(dialog, 'Rotate').click()
  await dialog.getByText('This is the new secret.').waitFor()
  assert.equal(await dialog.locator('code.secret').textContent(), kept)
  assert.equal((await kit.mock('state')).at(-1).body.secret, kept, 'a repetition sends the same')
  await button(dialog, 'Done').click()
  await kit.show(page, '/webhooks/hook/button')
  await button(page, 'Rotate the secret…').click()
  await dialog.getByLabel('New secret').fill('a secret of the sender')
  await button(dialog, 'Rotate').click()
  await button(dialog, 'Done').waitFor()
  assert.equal(await dialog.locator('code.secret').count(), 0, 'the sender has shown it')
  await kit.show(page, `/webhooks/hook/open`)
  await button(page, 'Delete…').waitFor()
  assert.equal(await button(page, 'Rotate the secret…').count(), 0, 'it has none')
  await kit.close(page)
})

/** tabTo presses Tab until the focus is on an element with a text. */
async function tabTo(page, text) {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => document.activeElement.textContent) === text) return
  }
  assert.fail(`no ${text} within 60 presses of Tab`)
}

test('by keyboard alone', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/tasks')
  await settled(page)
  await page.keyboard.press('g')
  await page.keyboard.press('w')
  await page.getByRole('link', { name: 'deploy' }).waitFor()
  await tabTo(page, 'deploy')
  await page.keyboard.press('Enter')
  await button(page, 'Pause…').waitFor()
  await tabTo(page, 'Pause…')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.activeElement.id === 'pause-reason')
  await page.keyboard.type('frozen')
  await tabTo(page, 'Pause')
  await page.keyboard.press('Enter')
  await page.getByText(/just now: frozen/).waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Resume', 'the focus stays where it was')
  await page.keyboard.press('Enter')
  await button(page, 'Pause…').waitFor()
  await kit.show(page, `/webhooks/destination/pager`)
  await button(page, 'Redeliver 2 dead letters…').waitFor()
  await tabTo(page, 'Redeliver 2 dead letters…')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await tabTo(page, 'Redeliver 2')
  await page.keyboard.press('Enter')
  await page.getByText('2 dead letters wait for delivery again.').waitFor()
  await page.waitForFunction(() => document.activeElement.id === 'deliveries') // its button is gone
  assert.deepEqual((await kit.mock('state')).map((r) => r.verb), ['pause', 'resume', 'redeliver'])
  await kit.close(page)
})

test('without webhooks the page says how to make them', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, services: 'none' })
  const page = await kit.open('/webhooks')
  await page.getByText('There is no hook.').waitFor()
  await page.getByText('There is no destination.').waitFor()
  await accessible(page, 'no webhooks')
  for (const kind of ['hook', 'destination']) {
    await kit.show(page, `/webhooks/${kind}/unknown`)
    await page.getByText(`There is no such ${kind}.`).waitFor()
  }
  await kit.close(page)
})

const first = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='
const plan = 'orch: v1\nname: deploy\ninputs: {required: [ref], properties: {ref: {type: string}}}\nsteps:\n  - {id: say, set: {at: "${{ inputs.ref }}"}}\n'

/** sign returns the signature of Standard Webhooks, with nothing of orch. */
const sign = (secret, id, at, body) => 'v1,' + createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(`${id}.${at}.${body}`).digest('base64')

/** receiver refuses so many deliveries that are signed with its secret, and holds the others until it is opened. */
async function receiver(refuses = 0) {
  const at = { secret: first, accepted: [], forged: 0, seen: 0 }
  const opened = new Promise((open) => { at.open = open })
  const server = createServer(async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures = '' } = req.headers
    const want = Buffer.from(sign(at.secret, id, time, body))
    const valid = signatures.split(' ').some((one) => one.length === want.length && timingSafeEqual(Buffer.from(one), want))
    if (!valid) at.forged++
    if (!valid) return res.writeHead(401).end()
    if (++at.seen <= refuses) return res.writeHead(500).end()
    await opened
    at.accepted.push({ id, type: JSON.parse(body).type })
    res.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  at.url = `http://127.0.0.1:${server.address().port}/in`
  at.close = () => server.close()
  return at
}

test('on a real node a receiver fails, answers, and verifies a new secret', async () => {
  const to = await receiver(2)
  const real = await Real.start({ ORCH_NET_ALLOW: '127.0.0.1' }, { 'plan.yaml': plan, 'secret.txt': first })
  try {
    real.orch('destination', 'create', 'pager', to.url, '--event', 'task.completed', '--secret-file', 'secret.txt')
    const page = await real.login('/webhooks/destination/pager')
    await page.getByText('Nothing waits, and there are no dead letters.').waitFor()
    await button(page, 'Send a test').click()
    await page.getByText('Test failed').waitFor()
    const task = real.orch('submit', 'plan.yaml', '-i', 'ref=main', '--detach', '-o', 'name')
    const deliveries = page.getByRole('region', { name: 'Deliveries' })
    await deliveries.getByText('the receiver answered 500').waitFor()
    await deliveries.getByRole('link', { name: new RegExp(`^${task}-`) }).waitFor()
    await page.getByText(/^1 event, the oldest from/).waitFor()
    await accessible(page, 'a failing destination')
    to.open()
    await page.getByText('Nothing waits, and there are no dead letters.').waitFor({ timeout: 30_000 })
    assert.deepEqual(to.accepted.map((one) => one.type), ['task.completed'])
    assert.equal(to.forged, 0)
    await button(page, 'Rotate the secret…').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('combobox').selectOption('0s')
    await button(dialog, 'Rotate').click()
    to.secret = await dialog.locator('code.secret').textContent()
    await button(dialog, 'Done').click()
    await button(page, 'Send a test').click()
    await page.getByText('the receiver answered 204').waitFor()
    assert.deepEqual(to.accepted.map((one) => one.type), ['task.completed', 'orch.test'])
    await button(page, 'Pause…').click()
    await dialog.getByRole('textbox', { name: /^Reason/ }).fill('the receiver moves')
    await button(dialog, 'Pause').click()
    await page.getByText(/^by user:.*: the receiver moves$/).or(page.getByText(/: the receiver moves$/)).first().waitFor()
    assert.equal(JSON.parse(real.orch('destination', 'get', 'pager', '--json')).paused.note, 'the receiver moves')
    await real.kit.close(page)
  } finally {
    await real.stop()
    to.close()
  }
})

test('on a real node signed deliveries come in, others do not, and the page says why', async () => {
  const real = await Real.start({}, { 'plan.yaml': plan, 'secret.txt': first })
  const deliver = async (secret, body, id = randomUUID()) => {
    const at = String(Math.floor(Date.now() / 1000))
    const headers = { 'Content-Type': 'application/json', 'Webhook-Id': id, 'Webhook-Timestamp': at, 'Webhook-Signature': sign(secret, id, at, body) }
    return (await fetch(`${real.kit.origin}/hooks/deploy`, { method: 'POST', headers, body })).status
  }
  try {
    real.orch('hook', 'create', 'deploy', 'plan.yaml', '--provider', 'standard', '--secret-file', 'secret.txt', '-i', 'ref=${{ hook.body.ref }}')
    const page = await real.login('/webhooks')
    const row = page.getByRole('row', { name: /deploy/ })
    await row.getByText('starts tasks of deploy').waitFor()
    assert.equal(await deliver(first, '{"ref":"main"}'), 202)
    assert.equal(await deliver(first, '{"ref":7}'), 422)
    assert.equal(await deliver('whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', '{}'), 401)
    await row.getByText(/^1 refused:/).waitFor() // the page reads again by itself
    await row.getByText(/^1 rejected:/).waitFor()
    await page.getByRole('link', { name: 'deploy', exact: true }).click()
    const last = page.getByRole('region', { name: 'Last deliveries' })
    await last.getByText('Refused', { exact: true }).waitFor()
    await last.getByRole('link', { name: /^TASK_/ }).waitFor()
    await button(page, 'Rotate the secret…').click()
    const dialog = page.getByRole('dialog')
    await button(dialog, 'Rotate').click()
    const secret = await dialog.locator('code.secret').textContent()
    await button(dialog, 'Done').click()
    assert.deepEqual([await deliver(secret, '{"ref":"new"}'), await deliver(first, '{"ref":"old"}')], [202, 202], 'both are valid for a day')
    await button(page, 'Pause…').click()
    await button(dialog, 'Pause').click()
    await button(page, 'Resume').waitFor()
    assert.equal(await deliver(secret, '{"ref":"late"}'), 503)
    await last.getByText('the hook is paused').waitFor()
    await accessible(page, 'a hook of a node')
    const viewer = await real.login('/webhooks/hook/deploy', '--role', 'viewer')
    await viewer.getByRole('region', { name: 'Last deliveries' }).waitFor()
    assert.equal(await button(viewer, 'Resume').count(), 0)
    await real.kit.close(viewer)
    const guest = real.orch('token', 'create', 'ada', '--role', 'submitter')
    const own = await real.kit.open('/nowhere')
    await own.context().setExtraHTTPHeaders({ Authorization: `Bearer ${guest}` })
    await own.goto(`${real.kit.origin}/ui/webhooks`)
    await own.getByRole('alert').first().waitFor()
    await settled(own)
    assert.equal(await own.getByRole('link', { name: 'Webhooks' }).count(), 0)
    await real.kit.close(own)
    assert.match(real.orch('audit', 'list', '--act', 'hook.*'), /hook\.rotate/)
    assert.doesNotMatch(real.orch('audit', 'export', '-'), /whsec_/)
  } finally {
    await real.stop()
  }
})

/** removed starts a node that removes a task a minute after its start, before a paused destination has heard of it. */
async function removed() {
  const to = await receiver()
  const real = await Real.start({ ORCH_NET_ALLOW: '127.0.0.1', ORCH_RETAIN: '[{where: {name: deploy}, done: 1s}]' }, { 'plan.yaml': plan, 'secret.txt': first })
  real.orch('destination', 'create', 'pager', to.url, '--event', 'task.completed', '--secret-file', 'secret.txt')
  real.orch('destination', 'pause', 'pager', '--note', 'the receiver moves')
  const task = real.orch('submit', 'plan.yaml', '-i', 'ref=main', '-o', 'name')
  real.orch('archive', '--age', '0s', '--wait')
  return { to, real, task, stop: async () => { await real.stop(); to.close() } }
}

test('on a real node a dead letter says why, and is redelivered', async () => {
  const { to, real, task } = old
  const page = await real.login('/audit?act=retention.tasks')
  await page.getByRole('link', { name: 'retention.tasks' }).waitFor({ timeout: 90_000 })
  await real.kit.show(page, `/webhooks/destination/pager`)
  await page.getByText(/^1 event, the oldest from/).waitFor()
  await page.getByText(/the receiver moves$/).waitFor()
  await button(page, 'Resume').click()
  const deliveries = page.getByRole('region', { name: 'Deliveries' })
  await deliveries.getByText('the event is no longer in the log').waitFor()
  await deliveries.getByText('Dead letter', { exact: true }).waitFor()
  await button(page, 'Pause…').click()
  const dialog = page.getByRole('dialog')
  await button(dialog, 'Pause').click()
  await button(page, 'Redeliver 1 dead letter…').click()
  await dialog.getByText(task).waitFor()
  await dialog.getByText('they wait until it is resumed').waitFor()
  await button(dialog, 'Redeliver 1').click()
  await deliveries.getByText('Waiting', { exact: true }).waitFor()
  const now = JSON.parse(real.orch('destination', 'get', 'pager', '--json'))
  assert.deepEqual([now.pending, now.dead, to.accepted], [1, 0, []])
  await real.kit.close(page)
})
