// The page of a real node: orch serve in a folder of its own. ORCH is the program, by default bin/orch of the repository.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { accessible, Kit, settled } from '../kit.mjs'

const program = process.env.ORCH ?? fileURLToPath(new URL('../../../bin/orch', import.meta.url))
const plan = `
orch: v1
name: report
inputs:
  type: object
  properties: {count: {type: integer, default: 1}}
steps:
  - {id: look, tool: LOG_WRITE, with: {level: INFO, message: "<b>looking</b>"}}
  - {id: write, tool: FILE_WRITE, needs: [look], with: {file_path: "ROOT/report.txt", content: "count \${{ inputs.count }}"}}
`

let root, port, node, kit
const orch = (...args) => execFileSync(program, ['--data-dir', join(root, 'data'), ...args], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

/** freePort returns a port that nobody listens at now. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** serve starts the node and waits until it serves. */
async function serve() {
  node = spawn(program, ['serve', '--data-dir', join(root, 'data'), '--http', `127.0.0.1:${port}`], { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  for await (const text of node.stderr) {
    said += text
    if (said.includes('its page is at')) break
  }
  assert.match(said, /its page is at/)
}

async function kill(signal) {
  const ended = once(node, 'exit')
  node.kill(signal)
  await ended
}

/** login returns a page of a browser that followed a one-time link. */
async function login(path = '') {
  const page = await kit.open('/node')
  await page.goto(orch('ui').match(/http\S+/)[0])
  if (path) await page.goto(`${kit.origin}/ui${path}`)
  return page
}

before(async () => {
  root = mkdtempSync(join(tmpdir(), 'orch-page-'))
  writeFileSync(join(root, 'plan.yaml'), plan.replace('ROOT', root))
  port = await freePort()
  await serve()
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
  kit = new Kit(`http://127.0.0.1:${port}`, browser)
})
after(async () => {
  await kit?.browser.close()
  await kill('SIGKILL')
  rmSync(root, { recursive: true, force: true })
})

test('without a login the page says how to open it', async () => {
  const page = await kit.open('/tasks')
  await page.getByText('orch ui').first().waitFor()
  await accessible(page, 'no login')
  await kit.close(page)
})

test('a link works once', async () => {
  const link = orch('ui').match(/http\S+/)[0]
  const page = await kit.open('/node')
  await page.goto(link)
  assert.match(page.url(), /\/ui\/(inbox)?$/)
  await page.context().clearCookies()
  const again = await page.goto(link)
  assert.equal(again.status(), 410)
  await page.getByText('orch ui').first().waitFor()
  await kit.close(page)
})

test('an approval appears by itself, is granted, and the task goes on', async () => {
  const page = await login('/inbox')
  await settled(page)
  const id = orch('submit', 'plan.yaml', '-d', '-o', 'name')
  await page.getByText('FILE_WRITE').first().waitFor()
  await page.waitForFunction(() => document.title.startsWith('(1)'))
  await page.goto(`${kit.origin}/ui/approvals/${orch('approvals', '-o', 'name').split('\n')[0]}`)
  await page.getByRole('textbox', { name: /^Reason/ }).fill('fine')
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('Approved.').waitFor()
  orch('watch', id)
  assert.match(orch('history', id, '-o', 'json'), /"approver": "user:/)
  await page.goto(`${kit.origin}/ui/tasks/${id}`)
  await page.getByText('The task is over: DONE').waitFor()
  await page.getByText('write').first().waitFor()
  await accessible(page, 'a task of a node')
  await kit.close(page)
})

test('a fork says what it repeats, and the two are compared', async () => {
  const first = orch('list', '-o', 'name').split('\n')[0]
  const page = await login(`/tasks/${first}?fork=0`)
  await page.getByRole('heading', { name: 'Fork this task' }).waitFor()
  await page.getByLabel('Cut at revision or step').fill('write')
  await page.getByLabel('Input count').fill('2')
  await page.getByRole('button', { name: 'Preview', exact: true }).click()
  await page.getByText('FILE_WRITE').first().waitFor()
  await page.getByText('The node refuses this fork until you allow').waitFor()
  await page.getByLabel('Allow calls with effects to happen again').check()
  await page.getByRole('button', { name: 'Fork', exact: true }).click()
  await page.getByText('Forked.').waitFor()
  const second = orch('list', '-o', 'name').split('\n')[0]
  assert.notEqual(second, first)
  await page.goto(`${kit.origin}/ui/compare?a=${first}&b=${second}`)
  await page.getByText('inputs.count').waitFor()
  await page.getByText('write.args.content').waitFor()
  await accessible(page, 'two tasks of a node')
  await kit.close(page)
})

test('the page says that the node is away, and goes on when it is back', async () => {
  const page = await login('/tasks')
  await page.getByText('report').first().waitFor()
  await kill('SIGKILL')
  await page.getByText(/node (is away|does not answer)|away|reconnect/i).first().waitFor()
  await serve()
  await page.goto(orch('ui').match(/http\S+/)[0])
  await page.goto(`${kit.origin}/ui/tasks`)
  await page.getByText('report').first().waitFor()
  await kit.close(page)
})

test('a write without the header of the page is refused', async () => {
  const page = await login('/tasks')
  const id = orch('list', '-o', 'name').split('\n')[0]
  const status = await page.evaluate(async (path) => (await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })).status, `/api/v1/tasks/${id}/cancel`)
  assert.equal(status, 403)
  await kit.close(page)
})
