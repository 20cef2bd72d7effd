// Clients that were generated from the description of the API, or that read it, against a node: orch serve in a folder of its own.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Dialogue } from './build/js/typescript/dialogue.js'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const program = process.env.ORCH ?? here('../../bin/orch')

let root, data, node, url, token

before(async () => {
  root = mkdtempSync(join(tmpdir(), 'orch-clients-'))
  data = join(root, 'data')
  node = spawn(program, ['serve', '--data-dir', data, '--root', root, '--http', '127.0.0.1:0', '-o', 'json'], { stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => node.kill('SIGKILL'))
  const [line] = await Promise.race([
    once(createInterface({ input: node.stdout }), 'line'),
    once(node, 'exit').then(([code]) => assert.fail(`the node ended with ${code}`)),
  ])
  url = new URL(JSON.parse(line).page).origin
  token = JSON.parse(execFileSync(program, ['token', 'create', 'robot', '--role', 'operator', '--data-dir', data, '-o', 'json'], { encoding: 'utf8' })).secret
})
after(async () => {
  const gone = once(node, 'exit')
  node.kill()
  await gone
  rmSync(root, { recursive: true, force: true })
})

describe('TypeScript', () => {
  for (const name of Object.getOwnPropertyNames(Dialogue.prototype).filter((name) => name !== 'constructor')) {
    test(name, () => new Dialogue(url, token, root)[name]())
  }
})

// The generated client needs libraries of Debian's Python.
for (const [python, file] of [['python3', 'dialogue.py'], ['/usr/bin/python3', 'typed.py']]) {
  test(`Python, ${file}`, () => {
    const variables = { ORCH_URL: url, ORCH_TOKEN: token, ORCH_ROOT: root, PYTHONPATH: here('build/python'), PYTHONDONTWRITEBYTECODE: '1' }
    execFileSync(python, [here(`python/${file}`)], { env: { ...process.env, ...variables }, stdio: ['ignore', 'inherit', 'inherit'] })
  })
}

// What a file describes is what the node serves.
test('the node serves the file', async () => {
  const served = await fetch(`${url}/api/v1/openapi.json`, { headers: { Authorization: `Bearer ${token}` } })
  assert.equal(await served.text(), readFileSync(here('../../docs/reference/openapi.json'), 'utf8'))
})
