import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface VirtualProps<T> {
  items: T[]
  /** height is the height of every row in pixels. */
  height: number
  label: string
  row: (item: T, index: number) => ComponentChildren
  /** id names a row, so that it is kept while others come before it. */
  id?: (item: T) => string
  class?: string
  /** end is called when the last rows come into view. */
  end?: (() => void) | undefined
  /** cursor is the selected row, moved by the arrow keys; -1 for none. */
  cursor?: number
  onCursor?: (index: number) => void
}

const spare = 4

/** Virtual is a list of which only the visible rows are in the document. */
export function Virtual<T>(p: VirtualProps<T>) {
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [view, setView] = useState(600)
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => setView(e?.contentRect.height ?? 600))
    if (box.current) watch.observe(box.current)
    return () => watch.disconnect()
  }, [])
  const from = Math.max(0, Math.floor(top / p.height) - spare)
  const to = Math.min(p.items.length, Math.ceil((top + view) / p.height) + spare)
  useEffect(() => { if (to >= p.items.length) p.end?.() }, [to, p.items.length])
  useEffect(() => reveal(box.current, p.cursor ?? -1, p.height), [p.cursor])
  usePlace(box, p)

  return (
    <div
      ref={box} class={`virtual ${p.class ?? ''}`} tabIndex={0} role="region" aria-label={p.label}
      onScroll={(e) => setTop(e.currentTarget.scrollTop)} onKeyDown={(e) => p.onCursor && arrows(e, p)}
    >
      <ol style={{ height: `${p.items.length * p.height}px`, paddingTop: `${from * p.height}px` }}>
        {p.items.slice(from, to).map((item, i) => (
          <li key={p.id?.(item) ?? from + i} class={from + i === p.cursor ? 'cursor' : undefined} style={{ height: `${p.height}px` }} data-index={from + i}>
            {p.row(item, from + i)}
          </li>
        ))}
      </ol>
    </div>
  )
}

/** usePlace keeps the first visible row where it is when rows come or go above it. */
function usePlace<T>(box: { current: HTMLDivElement | null }, p: VirtualProps<T>): void {
  const first = useRef('')
  useLayoutEffect(() => {
    const element = box.current
    if (!element || !p.id) return
    const shown = Math.floor(element.scrollTop / p.height)
    const now = shown > 0 && first.current ? p.items.findIndex((item) => p.id?.(item) === first.current) : -1
    if (now > 0 && now !== shown) element.scrollTop += (now - shown) * p.height
  }, [p.items])
  useEffect(() => {
    const item = p.items[Math.floor((box.current?.scrollTop ?? 0) / p.height)]
    first.current = item && p.id ? p.id(item) : ''
  })
}

function reveal(box: HTMLElement | null, index: number, height: number): void {
  if (!box || index < 0) return
  const top = index * height
  if (top < box.scrollTop) box.scrollTop = top
  if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight
}

const steps: Record<string, (cursor: number, last: number) => number> = {
  ArrowDown: (c, last) => Math.min(last, c + 1), ArrowUp: (c) => Math.max(0, c - 1),
  PageDown: (c, last) => Math.min(last, c + 10), PageUp: (c) => Math.max(0, c - 10),
  Home: () => 0, End: (_, last) => last,
}

function arrows<T>(e: KeyboardEvent, p: VirtualProps<T>): void {
  const step = steps[e.key]
  const target = e.target as HTMLElement
  if (!step || p.items.length === 0 || target.matches('input:not([type=checkbox]), textarea, select')) return
  e.preventDefault()
  p.onCursor?.(step(p.cursor ?? -1, p.items.length - 1))
}
