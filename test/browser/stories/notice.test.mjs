// A person follows the link of a notification, on a real node.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Real } from '../real.mjs'

let real, hook
const notices = []

before(async () => {
  hook = createServer(async (req, res) => {
    let text = ''
    for await (const chunk of req) text += chunk
    notices.push(JSON.parse(text))
    hook.emit('notice')
    res.end()
  }).listen(0, '127.0.0.1')
  await once(hook, 'listening')
  const address = `http://127.0.0.1:${hook.address().port}/`
  real = await Real.start({ HOOK: address, ORCH_NOTIFY_SERVICES: 'ops=env:HOOK', ORCH_NOTIFY_CHANNELS: 'ops', ORCH_NET_ALLOW: '127.0.0.1' })
})
after(async () => {
  await real?.stop()
  hook.close()
})

test('the link opens the card of the approval, once the browser is signed in', async () => {
  const step = { id: 'out', needs: ['ask'], tool: 'LOG_WRITE', with: { level: 'INFO', message: 'shipped' } }
  const plan = { orch: 'v1', name: 'release', steps: [{ id: 'ask', approve: { description: 'Ship it?' } }, step] }
  writeFileSync(join(real.project, 'plan.json'), JSON.stringify(plan))
  const heard = once(hook, 'notice')
  real.orch('submit', 'plan.json', '--detach')
  await heard
  const { link, message } = notices[0]
  assert.match(link, new RegExp(`^http://127.0.0.1:${real.port}/ui/approvals/APR_\\w+$`))
  assert.ok(message.endsWith(link), message)

  const page = await real.kit.open('/node')
  await page.goto(link)
  await page.getByRole('heading', { name: 'You are not signed in' }).waitFor()
  const other = await page.context().newPage()
  await other.goto(real.orch('ui').match(/http\S+/)[0])
  await page.getByRole('button', { name: 'Approve', exact: true }).waitFor({ timeout: 15_000 })
  await page.getByText('Ship it?').first().waitFor()
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('Approved.').waitFor()
  await real.kit.close(page)
})
