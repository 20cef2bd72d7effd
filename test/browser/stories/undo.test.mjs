// People put back what a session has changed: against the mock, and on a real node.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { program, Real } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

const dialogOf = (page) => page.getByRole('dialog', { name: 'Undo the changes of a session' })

for (const [scheme, width] of [['light', 1280], ['dark', 360]]) {
  test(`the dialog shows what an undo puts back: ${scheme}, ${width}`, async () => {
    const page = await kit.open('/sessions', { scheme, width })
    await page.getByRole('button', { name: /^Undo the changes of/ }).first().click()
    const dialog = dialogOf(page)
    await dialog.getByText('Nothing has happened yet.').waitFor()
    await dialog.getByText('/shop/<img src=x>').waitFor()
    await dialog.getByText('changed since, left as it is').waitFor()
    await settled(page)
    await accessible(page, `undo, ${scheme}, ${width}`)
    await kit.close(page)
  })
}

test('a person undoes by keyboard, and what was changed since too', async () => {
  const page = await kit.open('/sessions')
  await page.getByRole('button', { name: /^Undo the changes of/ }).first().press('Enter')
  const dialog = dialogOf(page)
  await dialog.getByRole('button', { name: 'Undo 2 files' }).waitFor()
  await dialog.getByLabel('Also put back what was changed since').press('Space')
  const confirm = dialog.getByRole('button', { name: 'Undo 3 files' })
  await confirm.waitFor()
  await dialog.getByText('1 file was changed since. These changes would be lost.').waitFor()
  const lost = dialog.getByRole('listitem').filter({ hasText: 'README.md' })
  assert.match(await lost.textContent(), /changed since by task ….{6} \(step notes, .+\): that change would be lostchanged since by somebody outside of sessions/)
  await lost.getByText('What is lost').click()
  await lost.getByText('<b>and test</b> it').waitFor()
  await accessible(page, 'undo with what is lost')
  await dialog.getByRole('button', { name: /Copy as command/ }).click()
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^orch undo TASK_\w+ --force$/)
  await confirm.press('Enter')
  await dialog.getByText('This has happened:').waitFor()
  const bodies = (await kit.mock('')).map((r) => r.body)
  assert.deepEqual(bodies, [{ force: false, dry_run: true }, { force: true, dry_run: true }, { force: true }])
  await page.keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^Undo the changes of/ }).first().press('Enter')
  await dialog.getByText('Nothing has changed.').waitFor()
  assert.equal(await dialog.getByRole('button', { name: 'Undo 0 files' }).isDisabled(), true)
  await kit.close(page)
})

test('sessions say what they did, and fit a small screen', async () => {
  const page = await kit.open('/sessions', { width: 360, height: 740, scheme: 'dark' })
  const row = page.getByRole('row').filter({ hasText: 'agent:claude' }).first()
  await row.getByRole('link', { name: /^4 calls$/ }).waitFor()
  await settled(page)
  const box = page.getByRole('region', { name: 'Sessions' })
  assert.deepEqual(await box.evaluate((b) => [b.scrollWidth - b.clientWidth, document.documentElement.scrollWidth]), [0, 360])
  await accessible(page, 'sessions, dark, 360')
  await kit.show(page, '/costs')
  await settled(page)
  for (const chip of await page.getByRole('group', { name: 'By' }).getByRole('button').all()) {
    const { x, width } = await chip.boundingBox()
    assert.ok(x >= 0 && x + width <= 360, 'no choice is off the screen')
  }
  await kit.close(page)
})

test('a viewer has the command alone', async () => {
  await kit.mock('reset', { events: 0, tasks: 50, role: 'viewer' })
  const page = await kit.open('/sessions')
  await page.getByRole('button', { name: /Copy as command: orch undo/ }).first().waitFor()
  assert.equal(await page.getByRole('button', { name: /^Undo the changes of/ }).count(), 0)
  await kit.close(page)
})

/** callTool calls a tool as an MCP client does, in a session. */
async function callTool(real, tool, args) {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'story', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {}, 'orch/session': 'undo',
  }
  const client = spawn(program, ['--data-dir', join(real.root, 'data'), 'mcp', 'serve'], { cwd: real.project, env: real.env, stdio: ['pipe', 'pipe', 'ignore'] })
  client.stdin.write(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: args, _meta } }) + '\n')
  let said = ''
  for await (const text of client.stdout) {
    said += text
    if (said.includes('"id":1')) break
  }
  client.stdin.end()
  return said
}

test('on a real node, an undo of a call says what of a later call it destroys', async () => {
  const real = await Real.start({ ORCH_WRITES: 'allow' })
  try {
    const file = join(real.project, 'a.txt')
    writeFileSync(file, 'one\n')
    await callTool(real, 'BASH_EXECUTE', { command: 'echo two >a.txt' })
    const first = real.orch('list', '-o', 'name')
    await callTool(real, 'BASH_EXECUTE', { command: 'echo three >>a.txt' })
    const second = real.orch('list', '-o', 'name').split('\n').find((id) => id !== first)
    writeFileSync(file, 'two\nthree\nby hand\n')
    const preview = real.orch('undo', first, '--force', '--dry-run')
    assert.match(preview, new RegExp(`would restore .*a.txt\\n  changed since by task ${second} \\(step call, .+\\): that change would be lost\\n  changed since by somebody outside of sessions`))
    assert.match(preview, /\n    \+three\n    \+by hand/)
    const page = await real.login(`/tasks/${first}`)
    await page.getByRole('button', { name: /^Undo the changes of BASH_EXECUTE/ }).click()
    const dialog = page.getByRole('dialog', { name: 'Undo the changes of a call' })
    await dialog.getByText('changed since, left as it is').waitFor()
    await dialog.getByRole('link', { name: `task …${second.slice(-6)}` }).waitFor()
    await dialog.getByLabel('Also put back what was changed since').check()
    await dialog.getByText('changed since by somebody outside of sessions').waitFor()
    await dialog.getByText('What is lost').click()
    await dialog.getByText('+by hand').waitFor()
    await dialog.getByRole('button', { name: 'Undo 1 file' }).click()
    await dialog.getByText('These changes are lost.').waitFor()
    assert.equal(readFileSync(file, 'utf8'), 'one\n')
    await real.kit.close(page)
  } finally {
    await real.stop()
  }
})

test('on a real node, the files of the project are put back', async () => {
  const real = await Real.start({ ORCH_WRITES: 'allow' })
  try {
    const [old, fresh] = [join(real.project, 'old.txt'), join(real.project, 'fresh.txt')]
    writeFileSync(old, 'before\n')
    assert.match(await callTool(real, 'BASH_EXECUTE', { command: 'echo after >old.txt; echo x >fresh.txt' }), /exit_code":0/)
    assert.equal(readFileSync(old, 'utf8'), 'after\n')
    const page = await real.login('/sessions')
    const row = page.getByRole('row', { name: /story/ })
    await row.getByRole('link', { name: '1 call' }).waitFor()
    await row.getByText(/^ ?BASH_EXECUTE$/).first().waitFor()
    await row.getByText('Changed files').click()
    await row.getByText(old, { exact: true }).waitFor()
    assert.equal(await row.getByText('Undone').count(), 0)
    await page.getByRole('button', { name: /^Undo the changes of/ }).click()
    const dialog = dialogOf(page)
    await dialog.getByText('would be restored').waitFor()
    assert.ok(existsSync(fresh), 'a preview changes nothing')
    assert.doesNotMatch(real.orch('list'), /UNDO/i, 'a preview is in no list')
    const [preview] = real.orch('list', '--name', 'orch/undo-preview', '-o', 'name').split('\n')
    assert.match(real.orch('result', preview), /"preview": ?true/)
    assert.doesNotMatch(real.orch('history', preview), /approval/, 'a preview needs no approval')
    await dialog.getByRole('button', { name: 'Undo 2 files' }).click()
    await dialog.getByText('This has happened:').waitFor()
    const acts = real.orch('audit', 'list', '-o', 'json')
    assert.equal(acts.match(/"approval\.grant"/g)?.length, 1, 'the undo alone was approved')
    await dialog.getByRole('button', { name: 'Close' }).last().click()
    await row.getByText('Undone', { exact: true }).waitFor({ timeout: 20_000 })
    await row.getByRole('link', { name: 'its task' }).click()
    await page.getByRole('heading', { name: 'PROJECT_UNDO' }).waitFor()
    assert.equal(readFileSync(old, 'utf8'), 'before\n')
    assert.ok(!existsSync(fresh))
    assert.match(real.orch('list'), /PROJECT_UNDO/, 'the undo itself is in the list')
    await real.kit.close(page)

    const viewer = await real.login('/sessions', '--role', 'viewer')
    await viewer.getByText('· viewer').waitFor()
    await viewer.getByRole('button', { name: /Copy as command: orch --data-dir \S+ undo/ }).waitFor()
    assert.equal(await viewer.getByRole('button', { name: /^Undo the changes of/ }).count(), 0)
    await real.kit.close(viewer)
  } finally {
    await real.stop()
  }
})
