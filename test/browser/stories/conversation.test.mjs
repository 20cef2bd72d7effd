// The conversation of an agent step with its model.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids } from '../places.mjs'
import { realNode } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { tasks: 10, events: 0 }))

const turns = (page) => page.getByRole('list', { name: 'Turns' })
/** numbers returns the turns that a page shows. */
const numbers = async (page) => (await turns(page).getByRole('heading', { level: 2 }).getByRole('link').allTextContents()).map((t) => Number(t.slice(5)))
const view = `/tasks/${ids.review}?tab=conversation`

test('only a task with an agent has a conversation; the newest turns come first, earlier ones are asked for', async () => {
  const page = await kit.open(`/tasks/${ids.running}`)
  await settled(page)
  assert.equal(await page.getByRole('link', { name: 'Conversation' }).count(), 0)
  await page.goto(`${kit.origin}/ui/tasks/${ids.review}`)
  await page.getByRole('button', { name: /^review(?!\.)/ }).click()
  await page.getByRole('complementary').getByRole('link', { name: 'Conversation' }).click()
  await page.getByText('24 turns of at most 50').waitFor()
  assert.deepEqual(await numbers(page), Array.from({ length: 20 }, (_, i) => i + 5))
  await page.getByRole('button', { name: 'Show turns before 5' }).click()
  await page.getByRole('link', { name: 'Turn 1', exact: true }).waitFor()
  assert.deepEqual(await numbers(page), Array.from({ length: 24 }, (_, i) => i + 1))
  assert.equal(await page.getByRole('button', { name: /Show turns before/ }).count(), 0)
  assert.match(await turns(page).getByRole('listitem').filter({ hasText: 'I will read the change.' }).first().innerText(), /1.400 \+ 100 tokens \$0\.0012345/)
  await kit.close(page)
})

test('what the model says is text, and a cut text can be read whole', async () => {
  const page = await kit.open(view)
  const last = turns(page).locator('> li').last()
  await last.getByText('<b>But</b> <script>alert(5)</script>').waitFor()
  await page.locator('.beginning summary').click()
  await page.getByText('You review changes.').waitFor()
  assert.equal(await page.locator('script:not([src]), .talk b').count(), 0)
  assert.ok(!/\u202E/.test(await page.locator('body').innerText()))
  await last.getByRole('button', { name: 'Show more of this turn' }).click()
  await last.getByText('That is all.').waitFor()
  assert.equal(await last.getByRole('button', { name: 'Show more of this turn' }).count(), 0)
  await kit.close(page)
})

test('what is recorded says so: calls that were not made, and a request that differs', async () => {
  const page = await kit.open(view)
  const item = (n) => turns(page).locator('> li').filter({ has: page.getByRole('link', { name: `Turn ${n}`, exact: true }) })
  await item(20).getByText('The request differs from the recorded one in instructions, tools.').waitFor()
  assert.ok(await item(20).getByText('recorded, nothing was called').count() > 0)
  assert.equal(await item(21).getByText('recorded, nothing was called').count(), 0)
  assert.equal(await item(21).getByText('differs from the recorded one').count(), 0)
  await kit.close(page)
})

test('the slider shows the conversation as it was', async () => {
  const page = await kit.open(view)
  await page.getByText('24 turns of at most 50').waitFor()
  await page.locator('#slider').fill('2')
  await page.getByText('1 turn of at most 50').waitFor()
  await turns(page).getByText('Asking').waitFor()
  await turns(page).getByText('at most 12').waitFor()
  await page.locator('#slider').fill('3')
  await turns(page).getByText('Acting').waitFor()
  await page.locator('#slider').fill('1')
  await page.getByText('The model has not been asked.').waitFor()
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.getByText('24 turns of at most 50').waitFor()
  await kit.close(page)
})

test('an opened call beside its step is accessible, in both schemes', async () => {
  for (const scheme of ['light', 'dark']) {
    const page = await kit.open(`${view}&rev=5&step=review.t1.c2`, { scheme })
    await turns(page).locator('.wrongtext').waitFor()
    for (const summary of await page.locator('.talk summary').all()) await summary.click()
    await turns(page).getByRole('region', { name: 'result of review.t1.c2' }).waitFor()
    await page.evaluate(() => { document.getElementById('main').scrollTop = 0 }) // axe cannot judge what is scrolled away
    await settled(page)
    await accessible(page, scheme)
    await kit.close(page)
  }
})

test('with the keyboard: the view, a call and its step, at 360 pixels', async () => {
  const page = await kit.open(`/tasks/${ids.review}`, { width: 360, height: 740 })
  await settled(page)
  await page.keyboard.press('7')
  await turns(page).waitFor()
  const call = turns(page).locator('summary').last()
  await call.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'arguments of review.t24.c1' }).waitFor()
  await turns(page).getByRole('link', { name: 'review.t24.c1' }).focus()
  await page.keyboard.press('Enter')
  const panel = page.getByRole('complementary', { name: 'Step review.t24.c1' })
  await panel.waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'review.t24.c1', 'the focus stays')
  const box = await panel.boundingBox()
  assert.ok(box.y >= 0 && box.y + box.height <= 741, JSON.stringify(box))
  assert.ok(await page.evaluate(() => document.querySelector('main').scrollWidth <= 360))
  await kit.close(page)
})

const script = `turns:
  - text: I will write it.
    usage: {input: 100, output: 10}
    calls: [{tool: FILE_WRITE, args: {file_path: ROOT/out.txt, content: x}}]
  - text: It is <b>written</b>.
`
const plan = 'orch: v1\nname: writer\nsteps: [{id: a, agent: {model: "script:writer", prompt: Write it., tools: [FILE_WRITE]}}]\n'

test('on a real node the conversation goes on by itself', async () => {
  const node = await realNode({ '.orch/models/writer.yaml': script, 'plan.yaml': plan })
  try {
    const id = /TASK_\w+/.exec(node.orch('submit', 'plan.yaml', '--detach'))[0]
    const page = await node.login(`/tasks/${id}?tab=conversation`)
    const first = turns(page).locator('> li').first()
    await first.getByText('Acting').waitFor()
    await first.getByText('I will write it.').waitFor()
    await first.getByText('100 + 10 tokens').waitFor()
    await first.getByRole('link', { name: 'waits for an approval' }).waitFor()
    const approval = /APR_\w+/.exec(node.orch('approvals', '-o', 'name'))[0]
    node.orch('approve', approval)
    await turns(page).getByText('It is <b>written</b>.').waitFor()
    await page.locator('.talk').getByText('2 turns of at most 50').waitFor()
    await first.getByText('Answered').waitFor()
    await first.getByText('Succeeded').waitFor()
    await page.getByRole('button', { name: /Copy as command: orch .*agent show/ }).click()
    assert.match(node.shell(await page.evaluate(() => navigator.clipboard.readText())), /turn 2 .*\n {2}It is <b>written<\/b>\./)
    await page.locator('#slider').fill('1')
    await turns(page).getByText('Asking').waitFor()
    await settled(page)
    await accessible(page, 'a real conversation')
    await node.kit.close(page)
  } finally {
    await node.stop()
  }
})

const chatter = 'turns:\n  - text: Hello.\n  - expect: milk\n    text: There is none.\n'
const chat = 'orch: v1\nname: chat\nsteps: [{id: a, agent: {model: "script:chatter", prompt: Hello, chat: true}}]\n'

test('on a real node a person talks with an agent', async () => {
  const node = await realNode({ '.orch/models/chatter.yaml': chatter, 'chat.yaml': chat })
  try {
    const id = /TASK_\w+/.exec(node.orch('submit', 'chat.yaml', '--detach'))[0]
    const page = await node.login(`/tasks/${id}?tab=conversation`)
    await page.getByText('waits for a message', { exact: true }).waitFor()
    const say = page.getByRole('button', { name: 'Say', exact: true })
    assert.ok(await say.isDisabled(), 'an empty message is not sent')
    await page.getByLabel('Your message').fill('Is there <b>milk</b>?')
    await page.getByRole('button', { name: /Copy as command: orch .*agent say TASK_\w+ 'Is/ }).first().click()
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^orch --data-dir \S+ agent say TASK_\w+ 'Is there <b>milk<\/b>\?' --step a$/)
    await say.click()
    const second = turns(page).locator('> li').nth(1)
    await second.getByText('Is there <b>milk</b>?').waitFor()
    await second.getByText('There is none.').waitFor()
    assert.equal(await page.getByLabel('Your message').inputValue(), '')
    await settled(page)
    await accessible(page, 'a chat')
    await page.getByRole('button', { name: 'End the chat' }).click()
    await page.getByLabel('Your message').waitFor({ state: 'detached' })
    await page.locator('.talk').getByText('Succeeded').first().waitFor()
    await node.kit.close(page)
  } finally {
    await node.stop()
  }
})
