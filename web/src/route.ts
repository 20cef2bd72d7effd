// The address of the page: paths below /ui/, without a hash.
import { computed, signal } from '@preact/signals'

const base = '/ui'
const here = signal(read())

function read(): URL { return new URL(location.href) }

/** path is the address below /ui, such as /tasks/TASK_1. */
export const path = computed(() => here.value.pathname.replace(base, '').replace(/\/$/, '') || '/')
export const query = computed(() => here.value.searchParams)

/** href returns the address of a page. */
export function href(to: string, params: Record<string, string | string[] | undefined> = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(params)) {
    for (const v of Array.isArray(value) ? value : [value]) if (v) search.append(name, v)
  }
  const text = search.toString()
  return base + to + (text && '?' + text)
}

/** go opens an address that href returned. */
export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, '', address)
  else history.pushState(null, '', address)
  here.value = read()
}

/** setQuery replaces parameters of the address and leaves the others. */
export function setQuery(params: Record<string, string | string[] | undefined>): void {
  const url = read()
  for (const [name, value] of Object.entries(params)) {
    url.searchParams.delete(name)
    for (const v of Array.isArray(value) ? value : [value]) if (v) url.searchParams.append(name, v)
  }
  go(url.pathname + url.search, true)
}

/** navigate makes links to pages of this program open without a load. */
export function navigate(): void {
  addEventListener('popstate', () => { here.value = read() })
  document.addEventListener('click', (e) => {
    const link = (e.target as Element).closest?.('a')
    if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    if (link.target || link.hasAttribute('download') || link.origin !== location.origin || !link.pathname.startsWith(base)) return
    e.preventDefault()
    go(link.pathname + link.search)
    document.getElementById('main')?.focus()
  })
}
