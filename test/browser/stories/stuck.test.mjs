// Tasks that nothing can go on with until a person does something.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { start } from '../kit.mjs'
import { deployApproval, expiredApproval, ids } from '../places.mjs'
import { Real } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

test('a task without a worker is in the inbox, with its reason and what to do', async () => {
  const page = await kit.open('/inbox')
  await page.getByRole('button', { name: 'Stuck 1' }).click()
  await page.getByRole('link', { name: /no worker serves queue gpu/ }).click()
  await page.getByRole('heading', { name: 'train-model' }).waitFor()
  await page.getByText('Step status is ready, but no worker serves queue gpu.').last().waitFor()
  await page.getByRole('button', { name: 'Copy as command: orch worker --queue gpu' }).last().click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'orch worker --queue gpu')
  assert.equal(await page.getByRole('button', { name: 'Resume', exact: true }).count(), 0)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel 1' }).click()
  await page.waitForFunction(() => document.title.startsWith('(10)'))
  assert.equal((await kit.mock(''))[0].id, ids.stuck)
  await kit.close(page)
})

test('the list says how much time is left, and an expired approval has a way out', async () => {
  const page = await kit.open(`/inbox/${deployApproval}`)
  await page.locator('.entry', { hasText: 'Deploy shop' }).getByText(/^5[34]m left$/).waitFor()
  await page.locator('.entry', { hasText: 'Which account' }).getByText(/^5[56]m left$/).waitFor()
  await kit.show(page, `/tasks/${ids.late}`)
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor()
  await page.getByRole('link', { name: 'What to do' }).click()
  await page.getByRole('heading', { name: 'Publish the site?' }).waitFor()
  await page.getByText(/^2h ago, expired 2h ago$/).waitFor()
  await page.getByRole('button', { name: `Copy as command: orch resume ${ids.late}` }).waitFor()
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await page.getByText('has gone on since: in progress').waitFor()
  const [sent] = await kit.mock('')
  assert.deepEqual([sent.verb, sent.id], ['resume', ids.late])
  assert.ok(page.url().endsWith(expiredApproval))
  await kit.close(page)
})

const farPlan = `orch: v1
name: far
steps:
  - {id: train, tool: BASH_EXECUTE, queue: gpu, with: {command: 'true'}}
`

test('on a real node, the badge counts it until a worker comes', async () => {
  const real = await Real.start({}, { 'far.yaml': farPlan })
  try {
    real.orch('submit', 'far.yaml', '--detach')
    const page = await real.login('/inbox')
    await page.getByRole('link', { name: /no worker serves queue gpu/ }).waitFor({ timeout: 60_000 })
    await page.waitForFunction(() => document.title === '(1) Inbox · orch')
    await page.getByRole('heading', { name: 'What to do' }).waitFor()
    assert.match(real.orch('list', '--stuck', '-o', 'name'), /^TASK_\w+$/)
    const elsewhere = join(real.root, 'elsewhere')
    mkdirSync(elsewhere)
    const leave = real.background('worker', '--queue', 'gpu', '--root', elsewhere)
    try {
      const [stuck] = real.orch('list', '--stuck', '-o', 'name').split('\n')
      while (!real.orch('explain', stuck).includes(`no worker of queue gpu works in ${real.project}`)) await page.evaluate(() => new Promise(requestAnimationFrame))
      await page.reload()
      await page.getByText(`no worker of queue gpu works in ${real.project}`).first().waitFor()
      await page.getByRole('button', { name: new RegExp(`^Copy as command: orch .*worker --queue gpu --root ${real.project}$`) }).first().waitFor()
    } finally {
      await leave()
    }
    const stop = real.background('worker', '--queue', 'gpu')
    try {
      await page.getByText('Nothing waits for you.').waitFor({ timeout: 30_000 })
      await page.waitForFunction(() => document.title === 'Inbox · orch')
    } finally {
      await stop()
    }
    await real.kit.close(page)
  } finally {
    await real.stop()
  }
})
