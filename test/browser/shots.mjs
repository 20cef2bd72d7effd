// Takes a screenshot of every page in both schemes and at both widths: npm run shots [NAME…].
import { mkdir } from 'node:fs/promises'
import { settled, start } from './kit.mjs'
import { places, schemes, widths } from './places.mjs'

const wanted = process.argv.slice(2)
const kit = await start()
await mkdir('shots', { recursive: true })
await kit.mock('reset', { events: 0 })
for (const [name, path] of Object.entries(places)) {
  if (wanted.length && !wanted.includes(name)) continue
  for (const scheme of schemes) {
    for (const width of widths) {
      const page = await kit.open(path, { width, scheme, height: width < 500 ? 740 : 800 })
      await settled(page)
      await page.screenshot({ path: `shots/${name}-${scheme}-${width}.png` })
      await kit.close(page).catch((e) => console.error(name, e.message))
    }
  }
}
await kit.stop()
