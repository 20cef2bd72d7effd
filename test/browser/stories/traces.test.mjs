// Somebody follows a task into a tracing backend, from a real node.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { accessible, settled } from '../kit.mjs'
import { schemes, widths } from '../places.mjs'
import { Real } from '../real.mjs'

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText())

let real, collector
const got = []
before(async () => {
  collector = createServer((request, answer) => {
    let body = ''
    request.on('data', (part) => { body += part }).on('end', () => { got.push(JSON.parse(body)); answer.end('{}'); collector.emit('spans') })
  }).listen(0, '127.0.0.1')
  await once(collector, 'listening')
  real = await Real.start({}, {}, '--traces-to', `http://127.0.0.1:${collector.address().port}`, '--traces-view', 'https://jaeger.example.com/trace/{trace}')
})
after(async () => { await real?.stop(); collector?.close() })

test('the trace of a task can be copied, opened and exported', async () => {
  real.write('traced.json', JSON.stringify({ orch: 'v1', name: 'traced', steps: [{ id: 'log', tool: 'LOG_WRITE', with: { level: 'INFO', message: 'x' } }] }))
  const task = real.orch('submit', 'traced.json', '--detach', '-o', 'name')
  real.orch('result', task)
  const page = await real.login(`/tasks/${task}?tab=data`)
  await page.getByRole('button', { name: 'Copy the id of the trace' }).click()
  const trace = await clipboard(page)
  assert.match(trace, /^[0-9a-f]{32}$/)
  const links = page.getByRole('link', { name: 'trace', exact: true })
  await links.nth(1).waitFor()
  for (const link of await links.all()) assert.equal(await link.getAttribute('href'), `https://jaeger.example.com/trace/${trace}`)
  await page.getByText('The node sends the spans of finished tasks to').waitFor()
  await page.getByRole('button', { name: /Copy as command: orch .*trace export/ }).click()
  assert.match(await clipboard(page), new RegExp(`trace export ${task} --tree --to http://127.0.0.1:${collector.address().port}$`))
  const spans = () => got.flatMap((r) => r.resourceSpans[0].scopeSpans[0].spans)
  while (spans().length < 3) await once(collector, 'spans')
  assert.deepEqual(new Set(spans().map((s) => s.traceId)), new Set([trace]))
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme })
    for (const width of widths) {
      await page.setViewportSize({ width, height: 1000 })
      await settled(page)
      await accessible(page, `the trace of a task, ${scheme}, ${width} px`)
    }
  }
  await real.kit.close(page)
})
