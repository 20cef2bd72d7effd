// The pages of the policy: the rules in effect, an imagined call, and another policy on past calls.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { realNode } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())

/** check looks at a page from its top: what is scrolled away lies below the link that skips to the content. */
async function check(page, where) {
  await page.locator('#main').evaluate((main) => main.scrollTo(0, 0))
  await accessible(page, where)
}
const copied = (page) => page.evaluate(() => navigator.clipboard.readText())
const commandOf = (page, words) => page.getByRole('button', { name: new RegExp(`^Copy as command: ${words}`) })

test('the rules are shown with their lines, as text, also at 360 px', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/policy', { width: 360 })
  await page.getByRole('rowheader', { name: 'no-push' }).waitFor()
  await page.getByText('The file has changed since the node read it.').waitFor()
  await page.getByText('<b>look</b> at whom it goes to').first().waitFor()
  assert.equal(await page.locator('main b', { hasText: 'look' }).count(), 0)
  await page.getByText('The text of the file').click()
  assert.equal(await page.locator('.numbered > span').count(), 13)
  await check(page, 'policy with its text')
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360), 'it fits')
  await kit.close(page)
})

test('a call is imagined with the keyboard alone', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, role: 'viewer' })
  const page = await kit.open('/inbox')
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.getByLabel('Tool', { exact: true }).first().focus()
  await page.keyboard.type('BASH_EXECUTE')
  await page.keyboard.press('Tab')
  await page.keyboard.type('agent:bot')
  await page.getByLabel('Arguments, as a JSON object').fill('{"command":')
  await page.getByText('This is not a JSON object.').waitFor()
  await check(page, 'wrong arguments')
  await page.getByLabel('Arguments, as a JSON object').fill('{"command":"git push origin"}')
  await page.getByRole('button', { name: 'What would happen?' }).focus()
  await page.keyboard.press('Enter')
  await page.getByText('The call would be refused.').waitFor()
  await page.getByText('POLICY_DENIED').waitFor()
  await check(page, 'a refused call')
  await commandOf(page, 'orch .*policy explain').click()
  assert.equal(await copied(page), "orch policy explain BASH_EXECUTE 'command=git push origin' --by agent:bot")
  await page.getByLabel('Tool', { exact: true }).first().fill('FILE_WRITE')
  await page.getByText('The call would be refused.').waitFor({ state: 'detached' }) // an old answer is gone
  await page.getByLabel('Arguments, as a JSON object').fill('{"file_path":"<img src=x>"}')
  await page.getByRole('button', { name: 'What would happen?' }).click()
  await page.getByText('<img src=x> lies outside').waitFor()
  await page.getByLabel('Tool', { exact: true }).first().fill('FILE_REED')
  await page.getByRole('button', { name: 'What would happen?' }).click()
  await page.getByText('did you mean FILE_READ?').waitFor()
  await kit.close(page)
})

test('another policy is judged by past calls, and its differences lead to the tasks', async () => {
  await kit.mock('reset', { tasks: 10, events: 0 })
  const page = await kit.open('/policy')
  await page.getByLabel('Label').fill('team=core')
  await page.getByRole('button', { name: 'Judge past calls' }).click()
  await page.getByText(/3 of 40 past calls of 12 tasks/).waitFor()
  await page.getByText('<i>publish</i>').waitFor()
  await check(page, 'differences')
  await commandOf(page, 'orch .*policy test').click()
  assert.equal(await copied(page), 'orch policy test policy.yaml --since 24h --label team=core')
  await page.locator('#test-tool').fill('FILE_*')
  await page.getByRole('button', { name: 'Judge past calls' }).click()
  await page.getByText('There are no such calls.').waitFor()
  await page.locator('#test-policy').fill('rules: []')
  await page.getByRole('button', { name: 'Judge past calls' }).click()
  await page.getByText('policy.yaml:1:1').waitFor()
  await check(page, 'a wrong policy')
  await page.locator('#test-policy').fill('version: 1')
  await page.locator('#test-tool').fill('')
  await page.getByRole('button', { name: 'Judge past calls' }).click()
  await page.getByRole('link', { name: 'publish', exact: true }).first().click()
  await page.waitForURL(`**/tasks/${ids.done}?step=publish`)
  await kit.close(page)
})

test('without a policy file the page says what to do first', async () => {
  await kit.mock('reset', { tasks: 10, events: 0, policy: 'none' })
  const page = await kit.open('/policy', { width: 360 })
  await page.getByText('No policy file is in effect.').waitFor()
  await page.getByText('orch serve --policy policy.yaml').waitFor()
  await settled(page)
  await check(page, 'no policy')
  await kit.mock('away')
  await page.getByRole('button', { name: 'Judge past calls' }).click()
  await page.getByText('the node cannot be reached').waitFor()
  await kit.close(page)
})

test('on a real node the page judges as the commands do', async () => {
  const rules = 'version: 1\nrules:\n  - {name: no-keys, action: deny, reason: keys stay here, paths: ["*.pem"]}\n'
  const node = await realNode({ 'policy.yaml': rules, 'a b.pem': 'x' }, '--policy', 'policy.yaml')
  try {
    const id = node.orch('submit', '--tool', 'LOG_WRITE', 'level=INFO', 'message=hello', '-d', '-o', 'name')
    node.orch('watch', id)
    const page = await node.login('/policy')
    await page.getByRole('rowheader', { name: 'no-keys' }).waitFor()
    await page.locator('#try-tool').fill('FILE_READ')
    await page.locator('#try-args').fill('{"file_path":"a b.pem"}')
    await page.getByRole('button', { name: 'What would happen?' }).click()
    await page.getByText('The call would be refused.').waitFor()
    await commandOf(page, 'orch .*policy explain').click()
    assert.match(node.shell(`${await copied(page)} --policy policy.yaml`), /would be refused[^]*rule: +no-keys/)
    await page.locator('#test-policy').fill('version: 1\nrules:\n  - {name: no-log, action: deny, tools: [LOG_*]}\n')
    await page.getByRole('button', { name: 'Judge past calls' }).click()
    await page.getByText(/1 of 1 past call of 1 task/).waitFor()
    await check(page, 'a back-test of a node')
    node.write('policy.yaml', 'version: 1\nrules:\n  - {name: no-log, action: deny, tools: [LOG_*]}\n')
    await commandOf(page, 'orch .*policy test').click()
    assert.match(node.shell(await copied(page)), /1 past call of 1 task: 1 would now be denied/)
    await page.getByRole('region', { name: 'Changed calls' }).getByRole('link').click()
    await page.waitForURL(`**/tasks/${id}?step=*`)
    await node.kit.close(page)
  } finally {
    await node.stop()
  }
})
