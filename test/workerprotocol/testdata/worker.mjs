// A worker for the kit: worker.mjs CLIENTS SLOTS. It returns the data of a call after data.seconds.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const { Worker } = await import(join(process.argv[2], 'orch.mjs'))
const worker = await Worker.fromFile(process.env.ORCH_CREDENTIAL, { slots: Number(process.argv[3]), drain: 1 })
process.on('SIGTERM', () => worker.stop())
worker.tool('conform', async call => {
  await sleep(call.data.seconds * 1000, undefined, { signal: call.signal }).catch(() => {})
  return call.data
})
await worker.run()
