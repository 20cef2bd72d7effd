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
