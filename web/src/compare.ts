// What a comparison of two tasks says; without a document.
import type { DiffEntry, Json } from './api.ts'
import { words } from './format.ts'
import { record } from './json.ts'

/** lackOf says why a side has no value: an output is missing because the task, or the step, has failed or has not ended well. */
export function lackOf(all: DiffEntry[], of: DiffEntry, side: 'a' | 'b'): string {
  const value = (part: string, path: string): Json | undefined => all.find((e) => e.part === part && e.path === path)?.[side]
  const output = /^(?:(.+)\.)?output$/.exec(of.path)
  if (!output || (of.part !== 'output' && of.part !== 'steps')) return 'absent'
  const [part, before] = of.part === 'output' ? ['task', ''] : ['steps', `${output[1] ?? ''}.`]
  const state = value(part, before + 'state')
  if (typeof state !== 'string') return 'absent'
  const why = record(value(part, before + 'error'))?.['message'] ?? value(part, before + 'reason')
  const what = of.part === 'output' ? 'the task' : 'the step'
  if (state.toLowerCase() !== 'failed') return `none: ${what} is ${words(state).toLowerCase()}`
  return `none: ${what} has failed${typeof why === 'string' && why ? `: ${why}` : ''}`
}
