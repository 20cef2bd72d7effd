// Many windows of one browser show one real node. A browser has six connections to it, for all of them.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Real } from '../real.mjs'

let real
before(async () => { real = await Real.start() })
after(() => real?.stop())

/** asked submits a plan that asks, and returns the ids of its task and of its approval. */
function asked(name) {
  const steps = [{ id: 'ask', approve: { description: 'Ship it?' } }, { id: 'out', needs: ['ask'], tool: 'LOG_WRITE', with: { level: 'INFO', message: 'shipped' } }]
  writeFileSync(join(real.project, 'plan.json'), JSON.stringify({ orch: 'v1', name, steps }))
  const task = real.orch('submit', join(real.project, 'plan.json'), '--detach', '-o', 'name')
  return { task, approval: real.orch('approvals', task, '-o', 'name') }
}

/** turn lets a window think that it is hidden, or that it can be seen again. */
const turn = (page, hidden) => page.evaluate((to) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => to })
  document.dispatchEvent(new Event('visibilitychange'))
}, hidden)

/** held waits until the windows of a browser hold so many slots. */
async function held(page, slots) {
  const deadline = Date.now() + 15_000
  for (let n = -1; n !== slots;) {
    assert.ok(Date.now() < deadline, `${n} slots are held, not ${slots}`)
    n = await page.evaluate(() => new Promise(requestAnimationFrame).then(() => navigator.locks.query()).then((q) => q.held.length))
  }
}

test('twelve windows that are seen at once all load, and all follow what happens', async () => {
  const { task, approval } = asked('many-windows')
  const first = await real.login('/inbox')
  const windows = [first]
  for (let i = 1; i < 12; i++) {
    const page = await first.context().newPage()
    page.setDefaultTimeout(15_000)
    await page.goto(`${real.kit.origin}/ui${i % 2 ? `/tasks/${task}` : '/tasks'}`)
    await page.getByText('many-windows').first().waitFor()
    windows.push(page)
  }
  for (const page of windows) await page.waitForFunction(() => document.title.startsWith('(1)'))
  real.orch('approve', approval)
  for (const [i, page] of windows.entries()) {
    if (i > 0) await (i % 2 ? page.locator('.facts-line') : page.locator('.table li')).getByText('Done', { exact: true }).first().waitFor()
    await page.waitForFunction(() => !document.title.startsWith('('))
    assert.equal(await page.getByText('The node is away').count(), 0)
  }
  await real.kit.close(first)
})

test('a window that is hidden gives its streams to the others, and goes on without a gap when it is seen again', async () => {
  const first = await real.login('/tasks')
  const others = []
  for (let i = 0; i < 3; i++) {
    const page = await first.context().newPage()
    await page.goto(`${real.kit.origin}/ui/tasks`)
    page.setDefaultTimeout(10_000)
    await page.getByRole('heading', { name: 'Tasks' }).waitFor()
    others.push(page)
  }
  await turn(first, true)
  await turn(others[0], true)
  await held(first, 3) // by two that are seen, and by the first one that is hidden
  asked('while-hidden')
  await first.getByRole('link', { name: 'while-hidden' }).waitFor() // it has the slot of hidden windows
  await turn(others[0], false)
  await others[0].getByRole('link', { name: 'while-hidden' }).waitFor() // it asks at once, not after half a minute
  await real.kit.close(first)
})
