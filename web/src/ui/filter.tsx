import { useEffect, useState } from 'preact/hooks'

/** FilterText is a field whose value changes with Enter or when it is left. What is typed stays while the list changes. wrong says what is not right with it. */
export function FilterText(p: { id: string; label: string; value: string; hint: string; wrong?: string; onChange: (value: string) => void }) {
  const [draft, setDraft] = useState(p.value)
  useEffect(() => { setDraft(p.value) }, [p.value])
  const about = p.id + '-wrong'
  return (
    <div class={`field ${p.wrong ? 'wrong' : ''}`}>
      <label for={p.id}>{p.label}</label>
      <input
        id={p.id} value={draft} placeholder={p.hint} autocomplete="off" spellcheck={false} aria-invalid={p.wrong ? true : undefined} aria-describedby={p.wrong ? about : undefined}
        onInput={(e) => setDraft(e.currentTarget.value)} onChange={(e) => p.onChange(e.currentTarget.value.trim())}
      />
      {p.wrong && <p class="small wrongtext" id={about}>{p.wrong}</p>}
    </div>
  )
}
