import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DestinationView, HookView } from '../src/api.ts'
import { commands } from '../src/commands.ts'
import { destinationState, does, hookState, making, newSecret } from '../src/webhooks.ts'

const hook = (more: Partial<HookView> = {}): HookView => ({ name: 'deploy', definition: { provider: 'github' }, requestor: 'user:ada', updated_at: '', has_secret: true, counts: {}, deliveries: [], ...more })
const destination = (more: Partial<DestinationView> = {}): DestinationView => ({ name: 'pager', definition: { url: '' }, requestor: 'user:ada', updated_at: '', has_secret: true, delivered: 0, pending: 0, dead: 0, ...more })
const paused = { by: 'user:ada', at: '' }

test('a state says what matters most', () => {
  const word = (h: Partial<HookView>) => hookState(hook(h))[1]
  assert.deepEqual([word({}), word({ has_secret: false }), word({ has_secret: false, paused })], ['Active', 'Without secret', 'Paused'])
  assert.equal(word({ has_secret: false, definition: { provider: 'none' } }), 'Active', 'it needs none')
  const of = (d: Partial<DestinationView>) => destinationState(destination(d))[1]
  const failing = { last_failure: { at: '' } }
  assert.deepEqual([of({}), of(failing), of({ ...failing, has_secret: false }), of({ ...failing, paused })], ['Active', 'Failing', 'Without secret', 'Paused'])
})

test('a hook says what its deliveries do', () => {
  assert.equal(does(hook({ definition: { provider: 'slack', signal: { task: '${{ hook.body.t }}', name: 'go' } } })), 'signals ${{ hook.body.t }} with go')
  assert.equal(does(hook({ plan_name: 'ship' })), 'starts tasks of ship')
  assert.equal(does(hook()), 'starts tasks of a plan without a name')
})

test('secrets have the form of their provider, and are never the same', () => {
  assert.match(newSecret('github'), /^[0-9a-f]{64}$/)
  assert.match(newSecret('standard'), /^whsec_[A-Za-z0-9+/]{43}=$/)
  assert.equal(new Set(Array.from({ length: 100 }, () => newSecret('standard'))).size, 100)
  assert.deepEqual(['github', 'standard', 'stripe', 'slack', 'none'].map(making), ['here', 'here', 'sender', 'sender', 'none'])
})

test('commands are words of a shell', () => {
  assert.equal(commands.hookTest('deploy', `{"a": "it's"}`, 'push'), `printf %s '{"a": "it'\\''s"}' | orch hook test deploy --body - --event push`)
  assert.equal(commands.webhookPause('hook', 'deploy', 'a b'), "orch hook pause deploy --note 'a b'")
  assert.equal(commands.webhookRotate('hook', 'deploy', '24h'), 'orch hook rotate deploy --secret-file new.secret')
  assert.equal(commands.webhookRotate('destination', 'pager', '0s'), 'orch destination rotate pager --secret-file new.secret --keep 0s')
})
