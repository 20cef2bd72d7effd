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

const deepest = 3
const widest = 50

/** Value shows one value: a short one in its line, a text with its line breaks, a list or an object with such texts by its members, anything else as JSON. */
function Value({ of: v, label, depth = 0 }: { of: Json; label: string; depth?: number }) {
  if (depth < deepest && typeof v !== 'string' && hasLines(v, deepest - depth)) return <Members of={v} label={label} depth={depth + 1} />
  const text = typeof v === 'string' ? v : pretty(v)
  const flat = typeof v === 'string' ? v : Array.isArray(v) ? `[${v.map((one) => pretty(one)).join(', ')}]` : text
  if (flat === '') return <span class="quiet">empty text</span>
  if (flat.length <= short && !flat.includes('\n')) return <code class="value"><Txt>{flat}</Txt></code>
  return <Long text={text} label={label} />
}

/** hasLines reports whether a list or an object has a text with line breaks, down to a depth. */
function hasLines(v: Json, depth: number): boolean {
  if (typeof v === 'string') return v.includes('\n')
  const inside = Array.isArray(v) ? v.slice(0, widest) : Object.values(record(v) ?? {})
  return depth > 0 && inside.some((one) => hasLines(one, depth - 1))
}

function Members({ of: v, label, depth }: { of: Json; label: string; depth: number }) {
  const all: [string, Json][] = Array.isArray(v) ? v.map((one, i) => [String(i + 1), one]) : Object.entries(record(v) ?? {})
  return (
    <>
      <dl class="members">
        {all.slice(0, widest).map(([name, one]) => (
          <div key={name}>
            <dt><Txt>{name}</Txt></dt>
            <dd><Value of={one} label={`${label} ${name}`} depth={depth} /></dd>
          </div>
        ))}
      </dl>
      {all.length > widest && <p class="quiet small">and {count(all.length - widest)} more: see it as JSON</p>}
    </>
  )
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
