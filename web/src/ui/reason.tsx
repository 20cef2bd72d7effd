import { useState } from 'preact/hooks'
import { draft, keepDraft } from '../drafts.ts'

/** Reason is a field for a reason, and whether one was missing when it was needed. */
export interface Reason { id: string; text: string; missing: boolean; set: (text: string) => void; ask: () => boolean }

/**
 * useReason returns a reason: what was typed there before and not used yet, if it has the name of a draft. ask reports whether there is one;
 * if not, it marks the field and moves the focus there.
 */
export function useReason(id: string, name = ''): Reason {
  const [text, setText] = useState(() => draft(name))
  const [missing, setMissing] = useState(false)
  return {
    id, text, missing,
    set: (t) => { setText(t); setMissing(false); keepDraft(name, t) },
    ask: () => {
      const there = text.trim() !== ''
      setMissing(!there)
      if (!there) document.getElementById(id)?.focus()
      return there
    },
  }
}

/** ReasonField asks for a reason. about says what becomes of it, wanted what needs it. */
export function ReasonField({ of: r, about, wanted = '', rows = 2 }: { of: Reason; about: string; wanted?: string; rows?: number }) {
  const wrong = r.id + '-wrong'
  return (
    <div class={`field ${r.missing ? 'wrong' : ''}`}>
      <label for={r.id}>Reason <span class="quiet">({about})</span></label>
      <textarea id={r.id} rows={rows} value={r.text} aria-invalid={r.missing} aria-describedby={r.missing ? wrong : undefined} onInput={(e) => r.set(e.currentTarget.value)} />
      {r.missing && <p class="small wrongtext" id={wrong} role="alert">{wanted}</p>}
    </div>
  )
}
