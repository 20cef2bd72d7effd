import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { openOver } from '../route.ts'

/** DialogProps are those of a dialog. One that is routed has an address, which opens and closes it. */
interface DialogProps { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean; routed?: boolean }

/** Dialog is a modal window. Escape, its button and Back close it. The focus is on its first field, or on its title if it has none. */
export function Dialog({ title, onClose, children, wide = false, routed = false }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    box.current?.showModal()
    const first = box.current?.querySelector<HTMLElement>('input, select, textarea') ?? box.current?.querySelector<HTMLElement>('h2')
    first?.focus()
    const closed = routed ? () => {} : openOver(() => box.current?.close())
    return () => {
      closed()
      if (before instanceof HTMLElement) before.focus()
      setTimeout(() => { if (document.activeElement === document.body) document.getElementById('main')?.focus() }) // what had the focus has gone
    }
  }, [])
  return (
    <dialog ref={box} aria-labelledby={id} class={wide ? 'wide' : ''} onClose={onClose}>
      <header>
        <h2 id={id} tabIndex={-1}>{title}</h2>
        <button type="button" class="plain close" aria-label="Close" onClick={() => box.current?.close()} />
      </header>
      {children}
    </dialog>
  )
}
