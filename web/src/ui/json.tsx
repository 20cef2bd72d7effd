import { useState } from 'preact/hooks'
import type { Json } from '../api.ts'
import { count } from '../format.ts'
import { pretty, record } from '../json.ts'
import { Command, Copy } from './copy.tsx'
import { Txt } from './text.tsx'

const most = 20_000

/** Long shows a text, the beginning of it first if it is very long. */
export function Long({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false)
  const cut = !all && text.length > most
  return (
    <>
      <pre class="text" tabIndex={0} role="region" aria-label={label}><Txt>{cut ? text.slice(0, most) : text}</Txt></pre>
      {cut && <button type="button" onClick={() => setAll(true)}>Show all {count(text.length)} characters</button>}
    </>
  )
}

/** JsonView shows a value as indented JSON. */
export function JsonView({ value, label }: { value: Json; label: string }) {
  return <Long text={pretty(value)} label={label} />
}

const short = 90

/** Value shows one value: a short one in its line, a text with its line breaks, anything else as JSON. */
function Value({ of: v, label }: { of: Json; label: string }) {
  const text = typeof v === 'string' ? v : pretty(v)
  const flat = typeof v === 'string' ? v : Array.isArray(v) ? `[${v.map((one) => pretty(one)).join(', ')}]` : text
  if (flat.length <= short && !flat.includes('\n') && flat !== '') return <code class="value"><Txt>{flat}</Txt></code>
  return <Long text={text} label={label} />
}

/** Fields shows the members of an object one by one, texts with their line breaks; other values as JSON. command prints the value on the command line. */
export function Fields({ value, label, command = '' }: { value: Json; label: string; command?: string }) {
  const [raw, setRaw] = useState(false)
  const entries = Object.entries(record(value) ?? {})
  if (entries.length === 0) return value === undefined || value === null ? <p class="quiet">No {label}.</p> : <JsonView value={value} label={label} />
  return (
    <div class="fields">
      {raw ? <JsonView value={value} label={label} /> : (
        <dl>
          {entries.map(([name, v]) => (
            <div key={name}>
              <dt><Txt>{name}</Txt></dt>
              <dd><Value of={v} label={name} /></dd>
            </div>
          ))}
        </dl>
      )}
      <div class="row small">
        <button type="button" class="link" aria-pressed={raw} onClick={() => setRaw(!raw)}>As JSON</button>
        <Copy text={pretty(value)} label={`Copy ${label}`}>Copy</Copy>
        {command && <Command text={command} />}
      </div>
    </div>
  )
}
