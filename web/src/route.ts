// The address of the page: paths below /ui/, without a hash.
import { computed, signal } from '@preact/signals'

const base = '/ui'
const here = signal(read())

function read(): URL { return new URL(location.href) }

/** path is the address below /ui, such as /tasks/TASK_1. */
export const path = computed(() => here.value.pathname.replace(base, '').replace(/\/$/, '') || '/')
export const query = computed(() => here.value.searchParams)

/** href returns the address of a page. */
export function href(to: string, params: Params = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(params)) {
    for (const v of Array.isArray(value) ? value : [value]) if (v) search.append(name, v)
  }
  const text = search.toString()
  return base + to + (text && '?' + text)
}

/** go opens an address that href returned. The entry of something open above the page becomes that of the address. */
export function go(address: string, replace = false): void {
  if (replace || over()) history.replaceState(null, '', address)
  else history.pushState(null, '', address)
  here.value = read()
}

/** over is the name of what is open above the page at this entry of the history of the browser, or ''. */
const over = (): string => (history.state as { over?: string } | null)?.over ?? ''

/** maxKept bounds the rows that an entry of the history keeps. */
const maxKept = 2000

/** keepTicks keeps at this entry of the history of the browser which rows of a list are selected. */
export function keepTicks(list: string, ids: string[]): void {
  history.replaceState({ ...(history.state as object | null), ticks: ids.length > maxKept ? undefined : { list, ids } }, '')
}

/** keptTicks returns what keepTicks has kept for a list at this entry. */
export function keptTicks(list: string): string[] {
  const kept = (history.state as { ticks?: { list: string; ids: string[] } } | null)?.ticks
  return kept?.list === list ? kept.ids : []
}

let opened = 0

/**
 * openOver adds an entry to the history of the browser for something that opens above the page, such as a dialog: Back closes it.
 * The returned function is to be called when it is closed, and takes the entry away again.
 */
export function openOver(close: () => void): () => void {
  const mine = `${performance.timeOrigin}-${++opened}`
  history.pushState({ over: mine }, '')
  const left = () => { if (over() !== mine) close() }
  addEventListener('popstate', left)
  return () => {
    removeEventListener('popstate', left)
    setTimeout(() => { if (over() === mine) history.back() }) // not if another address was opened with the end
  }
}

type Params = Record<string, string | string[] | undefined>

/** setQuery replaces parameters of the address and leaves the others. */
export function setQuery(params: Params): void { go(changed(params), true) }

function changed(params: Params): string {
  const url = read()
  for (const [name, value] of Object.entries(params)) {
    url.searchParams.delete(name)
    for (const v of Array.isArray(value) ? value : [value]) if (v) url.searchParams.append(name, v)
  }
  return url.pathname + url.search
}

const byAddress = 'address'

/** openQuery opens something above the page that has an address: its parameters. Back closes it. */
export function openQuery(params: Params): void {
  history.pushState({ over: byAddress }, '', changed(params))
  here.value = read()
}

/** closeQuery closes what openQuery, or a link, has opened. */
export function closeQuery(params: Params): void {
  if (over() === byAddress) history.back()
  else setQuery(params)
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
