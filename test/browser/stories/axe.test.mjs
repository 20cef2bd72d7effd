// Every page is accessible, in both schemes and at both widths.
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { places, schemes, widths } from '../places.mjs'

let kit
before(async () => {
  kit = await start()
  await kit.mock('reset', { events: 0, tasks: 100 })
})
after(() => kit.stop())

for (const [name, path] of Object.entries(places)) {
  for (const scheme of schemes) {
    for (const width of widths) {
      test(`${name}, ${scheme}, ${width} px`, async () => {
        const page = await kit.open(path, { scheme, width, height: 800 })
        try {
          await settled(page)
          await accessible(page, path)
        } finally {
          await kit.close(page)
        }
      })
    }
  }
}
