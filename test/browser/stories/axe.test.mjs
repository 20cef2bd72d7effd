// Every page is accessible, in both schemes and at both widths. A page is loaded once per scheme, and resized for the widths.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { places, schemes, widths } from '../places.mjs'

let kit
before(async () => {
  kit = await start()
  await kit.mock('reset', { events: 0, tasks: 100 })
})
after(() => kit.stop())

for (const scheme of schemes) {
  let page
  for (const [name, path] of Object.entries(places)) {
    for (const width of widths) {
      test(`${name}, ${scheme}, ${width} px`, async () => {
        page ??= await kit.open('/nowhere', { scheme })
        await page.setViewportSize({ width, height: 1000 }) // high enough that no row of the inbox is half hidden
        if (width === widths[0]) await kit.show(page, path)
        await settled(page)
        await accessible(page, path)
        assert.deepEqual(kit.errors, [])
      })
    }
  }
}
