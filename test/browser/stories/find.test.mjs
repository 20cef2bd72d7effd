// A person finds an entry of a full inbox, and tells those of one batch apart.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { Real } from '../real.mjs'

let kit
before(async () => { kit = await start() })
after(() => kit.stop())
beforeEach(() => kit.mock('reset', { events: 0, tasks: 50 }))

const titles = (page) => page.locator('.entry .title').allTextContents()

for (const width of [1280, 360]) {
  test(`the inbox finds entries by tool, person and name: ${width}`, async () => {
    const page = await kit.open('/inbox', { width })
    const field = page.getByRole('search').getByRole('textbox', { name: 'Find' })
    await field.fill('secret_rotate')
    await page.locator('.entry', { hasText: 'Deploy shop' }).waitFor({ state: 'detached' })
    assert.deepEqual(await titles(page), [1, 2, 3, 4].map((i) => `Rotate the key of service ${i}`))
    assert.match(page.url(), /find=secret_rotate/)
    await settled(page)
    await accessible(page, `found entries, ${width}`)
    await field.fill('agent:ci key-3')
    await page.waitForFunction(() => document.querySelectorAll('.entry').length === 1)
    assert.deepEqual(await titles(page), ['Rotate the key of service 3'])
    await page.locator('.entry').getByRole('link').click()
    await page.getByRole('heading', { name: 'Rotate the key of service 3' }).waitFor()
    assert.match(page.url(), /\/inbox\/APR_.*find=/, 'the search stays')
    await kit.show(page, '/inbox?find=nothing+like+it')
    await page.getByText('No entry matches.').waitFor()
    await accessible(page, `nothing found, ${width}`)
    await page.getByRole('link', { name: 'Clear the search' }).click()
    await page.locator('.entry', { hasText: 'Deploy shop' }).waitFor()
    assert.equal(await field.inputValue(), '')
    await kit.close(page)
  })
}

const plans = {
  'fails.yaml': 'orch: v1\nname: nightly\nsteps:\n  - {id: a, tool: FILE_READ, with: {file_path: missing.txt}}\n',
  'asks.yaml': `orch: v1
name: publish
inputs: {properties: {region: {type: string}}}
steps:
  - id: ask
    approve: {description: 'Publish it?', rationale: 'region \${{ inputs.region }}'}
`,
  'argv.yaml': `orch: v1
name: deploy
inputs: {properties: {host: {type: string}}}
steps:
  - {id: run, tool: BASH_EXECUTE, with: {command: '/tmp/new/deploy.sh "$2" "$1"', argv: ['\${{ inputs.host }}', prod]}}
`,
  'command.yaml': `orch: v1
name: restart
inputs: {properties: {host: {type: string}}}
steps:
  - {id: run, tool: BASH_EXECUTE, with: {command: '/tmp/new/on-the-gate.sh sudo systemctl restart \${{ inputs.host }} --now'}}
`,
  'shows.yaml': `orch: v1
name: drop
inputs: {properties: {host: {type: string}}}
steps:
  - {id: ask, approve: {description: 'Drop it?', show: {host: '\${{ inputs.host }}'}}}
`,
}

test('on a real node, rows of one batch say what tells them apart', async () => {
  const real = await Real.start({}, plans)
  try {
    for (const region of ['eu', 'us']) {
      real.orch('submit', 'asks.yaml', '-i', `region=${region}`, '--detach')
      real.orch('submit', 'fails.yaml', '--label', `shard=${region}`, '--detach')
    }
    const page = await real.login('/inbox')
    for (const text of ['region eu', 'region us', 'shard eu', 'shard us']) await page.locator('.entry .differs', { hasText: text }).waitFor()
    const cut = await page.locator('.entry .differs').evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth).length)
    assert.equal(cut, 0, 'what tells them apart is not cut off')
    await page.getByRole('checkbox', { name: 'Select Publish it?, region us' }).check()
    await page.getByRole('textbox', { name: 'Find' }).fill('shard=us')
    await page.waitForFunction(() => document.querySelectorAll('.entry').length === 1)
    await page.locator('.entry', { hasText: 'shard us' }).waitFor()
    assert.equal(await page.getByText('1 selected').count(), 0, 'what is not shown is not selected')
    await real.kit.close(page)
  } finally {
    await real.stop()
  }
})

/** whole fails if something of what tells rows apart is cut off. */
async function whole(page, where) {
  const cut = await page.locator('.entry .differs').evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent))
  assert.deepEqual(cut, [], where)
}

test('on a real node, rows of one command say which argument, or which part of it, differs, and are found by it', async () => {
  const real = await Real.start({}, plans)
  try {
    for (const host of ['web-17', 'web-18']) for (const plan of ['argv', 'command', 'shows']) real.orch('submit', `${plan}.yaml`, '-i', `host=${host}`, '--detach')
    const says = ['web-17', 'web-18'].flatMap((host) => [`argv ${host}, prod`, `…restart ${host}…`, `host ${host}`])
    for (const width of [1280, 360]) {
      const page = await real.login('/inbox?kind=approval')
      await page.setViewportSize({ width, height: 800 })
      for (const text of says) await page.locator('.entry .differs', { hasText: text }).waitFor()
      await whole(page, `${width}`)
      await accessible(page, `rows of one command, ${width}`)
      for (const text of says) {
        await page.getByRole('textbox', { name: 'Find' }).fill(text.replaceAll('…', ''))
        await page.waitForFunction((only) => [...document.querySelectorAll('.entry .differs')].map((e) => e.textContent).join('|') === only, text)
      }
      await page.getByRole('textbox', { name: 'Find' }).fill('web-17')
      await page.waitForFunction(() => document.querySelectorAll('.entry').length === 3)
      for (const box of await page.getByRole('checkbox', { name: /^Select .*web-17/ }).all()) await box.check()
      await page.getByRole('button', { name: 'Approve…' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Approve 3' }).waitFor()
      assert.deepEqual((await page.getByRole('dialog').locator('li .differs').allTextContents()).sort(), says.slice(0, 3).sort())
      await accessible(page, `a dialog about them, ${width}`)
      await page.route('**/tasks:bulk', (route) => (route.request().postDataJSON()?.dry_run === undefined && route.request().method() === 'POST' ? route.abort() : route.continue()))
      await page.getByRole('dialog').getByRole('button', { name: 'Approve 3' }).click()
      await page.getByRole('dialog').getByText('The node has done nothing of it').waitFor()
      const lines = await page.locator('.banner li').allTextContents()
      assert.deepEqual(lines.map((line) => line.replace(/^.*, (argv|…|host)/, '$1')).sort(), says.slice(0, 3).map((text) => `${text}: not done`).sort())
      await real.kit.close(page)
    }
  } finally {
    await real.stop()
  }
})
