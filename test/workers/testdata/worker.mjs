// A worker for the tests: worker.mjs CLIENTS CREDENTIAL DIR. It writes down each effect before it answers.
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [clients, credential, folder] = process.argv.slice(2)
const { Release, Worker } = await import(join(clients, 'orch.mjs'))
const worker = await Worker.fromFile(credential, { slots: 8 })
process.on('SIGTERM', () => worker.stop())

worker.tool('square', async call => {
  call.progress(1, 2, 'squaring')
  appendFileSync(join(folder, 'effects'), call.key + '\n')
  return call.data.n ** 2
})
worker.tool('fail', () => { throw new Error('not a number') })
worker.tool('busy', call => {
  if (call.ref.attempt === 1) throw new Release('busy')
  return 'done'
})
worker.tool('until-stopped', async call => {
  const stopped = new Promise(resolve => call.signal.addEventListener('abort', resolve))
  writeFileSync(join(folder, 'begun'), '')
  await stopped
  writeFileSync(join(folder, 'stopped'), '')
})
await worker.run()
