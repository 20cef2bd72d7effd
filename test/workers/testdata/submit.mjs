// A client for the tests: submit.mjs CLIENTS URL TOKEN PLAN KEY [SIGNAL]. It submits a plan, signals and prints the result.
import assert from 'node:assert'
import { join } from 'node:path'

const [clients, url, token, plan, key, ...names] = process.argv.slice(2)
const { Client } = await import(join(clients, 'orch.mjs'))
const node = new Client(url, token)
const task = await node.submit(JSON.parse(plan), { key })
assert.equal(await node.submit(JSON.parse(plan), { key }), task, 'the same key is the same task')
for (const name of names) await node.signal(task, name, { factor: 3 })
console.log(JSON.stringify(await node.wait(task, 120_000)))
