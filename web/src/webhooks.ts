// What hooks and destinations say of themselves in words, and the secrets that the page makes for them.
import type { DestinationView, HookView } from './api.ts'

/** Kind is a direction: a hook takes deliveries, a destination gets them. It is also the name of its command. */
export type Kind = 'hook' | 'destination'

/** At is a hook or a destination, as its actions name it. path is its address in the API. */
export interface At { kind: Kind; name: string; path: string }

/** at returns a hook or a destination by its name. */
export const at = (kind: Kind, name: string): At => ({ kind, name, path: `/${kind}s/${encodeURIComponent(name)}` })

/** signs reports whether the sender of a hook signs its deliveries. */
export const signs = (h: HookView): boolean => h.definition.provider !== 'none'

/** hookState returns the look and the word for what a hook does with deliveries. */
export function hookState(h: HookView): [string, string] {
  if (h.paused) return ['off', 'Paused']
  if (signs(h) && !h.has_secret) return ['block', 'Without secret']
  return ['good', 'Active']
}

/** destinationState returns the look and the word for how the deliveries of a destination go. */
export function destinationState(d: DestinationView): [string, string] {
  if (d.paused) return ['off', 'Paused']
  if (!d.has_secret) return ['block', 'Without secret']
  if (d.last_failure) return ['bad', 'Failing']
  return ['good', 'Active']
}

const providers: Record<string, string> = { github: 'GitHub', stripe: 'Stripe', slack: 'Slack', standard: 'Standard Webhooks', none: 'none' }

/** providerName returns the name of who signs the deliveries to a hook. */
export const providerName = (h: HookView): string => providers[h.definition.provider] ?? h.definition.provider

/** does says in one line what a delivery to a hook does. */
export function does(h: HookView): string {
  const { signal } = h.definition
  return signal ? `signals ${signal.task} with ${signal.name}` : `starts tasks of ${h.plan_name || 'a plan without a name'}`
}

/** Making is how a secret of a provider comes about: the page makes it, the sender does and shows it, or there is none. */
export type Making = 'here' | 'sender' | 'none'

/** making returns who makes the secrets of a provider. Destinations sign as standard. */
export function making(provider: string): Making {
  if (provider === 'none') return 'none'
  return provider === 'stripe' || provider === 'slack' ? 'sender' : 'here'
}

/** newSecret returns another secret for a provider, of 32 random bytes. */
export function newSecret(provider: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  if (provider === 'standard') return 'whsec_' + btoa(String.fromCharCode(...bytes))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}
