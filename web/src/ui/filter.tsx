import { useEffect, useRef, useState } from 'preact/hooks'

/** pause is how long somebody has typed nothing when a filter is applied, in milliseconds. */
const pause = 300

interface FilterProps {
  id: string
  label: string
  value: string
  hint: string
  /** wrong says what is not right with the value. */
  wrong?: string
  /** whole reports whether a text is a filter already. What is not is applied with Enter alone. */
  whole?: (value: string) => boolean
  onChange: (value: string) => void
}

/** FilterText is a field whose value changes after a pause in typing, with Enter, or when it is left. What is typed stays while the list changes. */
export function FilterText(p: FilterProps) {
  const [draft, setDraft] = useState(p.value)
  const applied = useRef(p.value)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    if (p.value !== applied.current) setDraft(p.value) // it was changed elsewhere: what is typed here is the value, or will be
    applied.current = p.value
  }, [p.value])
  useEffect(() => () => clearTimeout(timer.current), [])
  const apply = (typed: string) => {
    clearTimeout(timer.current)
    const value = typed.trim().replace(/\s+/g, ' ')
    if (value === applied.current) return
    applied.current = value
    p.onChange(value)
  }
  const type = (typed: string) => {
    setDraft(typed)
    clearTimeout(timer.current)
    if (p.whole?.(typed.trim()) ?? true) timer.current = setTimeout(() => apply(typed), pause)
  }
  const about = p.id + '-wrong'
  return (
    <div class={`field ${p.wrong ? 'wrong' : ''}`}>
      <label for={p.id}>{p.label}</label>
      <input
        id={p.id} value={draft} placeholder={p.hint} autocomplete="off" spellcheck={false} aria-invalid={p.wrong ? true : undefined} aria-describedby={p.wrong ? about : undefined}
        onInput={(e) => type(e.currentTarget.value)} onChange={(e) => apply(e.currentTarget.value)}
      />
      {p.wrong && <p class="small wrongtext" id={about}>{p.wrong}</p>}
    </div>
  )
}
