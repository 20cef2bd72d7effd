// Shortcuts of single keys. A page registers its own while it is on screen.
import { signal } from '@preact/signals'
import { useLayoutEffect } from 'preact/hooks'

export interface Key { key: string; does: string; run: () => void }

/** keysOn is false if the reader switched shortcuts off. */
export const keysOn = signal(localStorage.getItem('orch.keys') !== 'off')
/** keys are the shortcuts that work now. */
export const keys = signal<Key[]>([])

/** setKeysOn switches shortcuts on or off, and remembers it. */
export function setKeysOn(on: boolean): void {
  keysOn.value = on
  localStorage.setItem('orch.keys', on ? 'on' : 'off')
}

/** useKeys registers shortcuts while a component is on screen. A key that is pressed right after a change of the page finds the new ones. */
export function useKeys(own: Key[], when: unknown[] = []): void {
  useLayoutEffect(() => {
    keys.value = [...keys.peek(), ...own]
    return () => { keys.value = keys.peek().filter((k) => !own.includes(k)) }
  }, when)
}

let prefix = ''

/** listenKeys runs shortcuts. Keys in fields and dialogs belong to those. */
export function listenKeys(): void {
  document.addEventListener('keydown', (e) => {
    const target = e.target as HTMLElement
    if (!keysOn.value || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return
    if (target.closest('dialog, textarea, select, input:not([type=checkbox], [type=radio])')) return
    if (e.key === 'Enter' && target.closest('a, button, input, summary')) return
    const pressed = prefix + e.key
    const key = keys.value.findLast((k) => k.key === pressed)
    prefix = key ? '' : keys.value.some((k) => k.key.startsWith(e.key + ' ')) ? e.key + ' ' : ''
    if (!key) return
    e.preventDefault()
    key.run()
  })
}
