import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commands } from '../src/commands.ts'
import { flagsFor, learnReach, orch, reaching, runnable } from '../src/reach.ts'

test('commands have what reaches the node from the shell of the reader', () => {
  const cases: [data: string | undefined, server: string | undefined, host: string, want: string[]][] = [
    [undefined, undefined, '127.0.0.1', []],
    ['/srv/orch', undefined, 'localhost', ['--data-dir', '/srv/orch']],
    ['/srv/orch', 'nats://0.0.0.0:4222', '[::1]', ['--data-dir', '/srv/orch']],
    ['/srv/orch', undefined, 'shop.example', ['--data-dir', '/srv/orch']],
    ['/srv/orch', 'nats://0.0.0.0:4222', 'shop.example', ['--server', 'nats://shop.example:4222']],
    [undefined, 'nats://[::]:4222', '10.0.0.7', ['--server', 'nats://10.0.0.7:4222']],
    [undefined, 'tls://nats.example:4222', 'shop.example', ['--server', 'tls://nats.example:4222']],
    ['/srv/orch', undefined, '127.example.com', ['--data-dir', '/srv/orch']],
  ]
  for (const [data, server, host, want] of cases) {
    assert.deepEqual(flagsFor({ ...(data ? { data_dir: data } : {}), ...(server ? { server } : {}) }, host), want, `${data} ${server} ${host}`)
  }
})

test('a command with something left to choose or to write is not runnable', () => {
  for (const open of ['orch resolve TASK_1 a --as … (succeeded, failed or retry)', 'orch resolve TASK_1 a --as succeeded|failed|retry', 'orch agent say TASK_1 --step a TEXT', 'see the log', '']) assert.ok(!runnable(open), open)
  for (const whole of ['orch doctor', 'orch resume TASK_1', "orch worker --queue q --root '/a (b)|c'", 'orch resume --tool READ']) assert.ok(runnable(whole), whole)
})

test('every command has them, also one that the node names', () => {
  learnReach({ data_dir: "/srv/it's here" }, '127.0.0.1')
  assert.equal(orch('list'), `orch --data-dir '/srv/it'\\''s here' list`)
  assert.equal(reaching('orch worker --queue gpu'), `orch --data-dir '/srv/it'\\''s here' worker --queue gpu`)
  assert.equal(reaching('orchestra'), 'orchestra')
  assert.equal(commands.hookTest('deploy', '| orch x', ''), `printf %s '| orch x' | orch --data-dir '/srv/it'\\''s here' hook test deploy --body -`)
  learnReach({}, '127.0.0.1')
  assert.equal(orch('list'), 'orch list')
})
