import { effect, signal } from '@preact/signals'

export type Theme = 'auto' | 'light' | 'dark'
const order: Theme[] = ['auto', 'light', 'dark']

/** theme is the colour scheme that the reader chose; auto follows the system. */
export const theme = signal<Theme>(stored())

function stored(): Theme {
  const value = localStorage.getItem('orch.theme') as Theme
  return order.includes(value) ? value : 'auto'
}

/** nextTheme chooses the next scheme. */
export function nextTheme(): void {
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? 'auto'
}

/** applyTheme keeps the document in the chosen scheme. */
export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
    localStorage.setItem('orch.theme', theme.value)
  })
}
