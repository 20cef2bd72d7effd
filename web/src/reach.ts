// What commands need to reach the node of the page from a shell; without a document.
import { signal } from '@preact/signals'
import type { Status } from './api.ts'
import { command } from './format.ts'

/** flags are the flags that every command needs. */
const flags = signal<string[]>([])

const local = (host: string): boolean => host === 'localhost' || host === '[::1]' || /^127\./.test(host)

/**
 * flagsFor returns the flags for the node with a status. host is the name in the address of the page: on the machine of the node a command
 * needs its data directory if it is not the default one, elsewhere its URL. If it has no URL for others, commands run on its machine.
 */
export function flagsFor(s: Pick<Status, 'data_dir' | 'server'>, host: string): string[] {
  if (!local(host) && s.server) return ['--server', s.server.replace(/\/\/(0\.0\.0\.0|\[::\])/, () => '//' + host)]
  return s.data_dir ? ['--data-dir', s.data_dir] : []
}

/** learnReach takes over what commands need from a status. */
export function learnReach(s: Pick<Status, 'data_dir' | 'server'>, host: string): void {
  const found = flagsFor(s, host)
  if (found.join('\n') !== flags.value.join('\n')) flags.value = found
}

/** orch is a command of orch that reaches the node. */
export const orch = (...parts: string[]): string => command('orch', ...flags.value, ...parts)

/** runnable reports whether a command that the node has named can run as it is: nothing in it is left to choose or to write. */
export const runnable = (text: string): boolean => text.startsWith('orch ') && !/…|\||\(| TEXT$/.test(text.replace(/'[^']*'/g, ''))

/** reaching makes a command that the node has named reach it. */
export const reaching = (text: string): string => (text.startsWith('orch ') ? orch() + text.slice('orch'.length) : text)
