import { useState } from 'preact/hooks'
import type { Json } from '../api.ts'
import { plural } from '../format.ts'
import { compact, record, text } from '../json.ts'
import { Fields } from '../ui/json.tsx'
import { Line, Txt } from '../ui/text.tsx'

const atFirst = 50

/** Covered lists the further calls that a grant permits: each with its step, its tool and its exact arguments. */
export function Covered({ calls }: { calls: Json }) {
  const [all, setAll] = useState(false)
  if (!Array.isArray(calls) || calls.length === 0) return null
  const shown = all ? calls : calls.slice(0, atFirst)
  return (
    <section>
      <h3>Covers {plural(calls.length, 'call')}, with exactly these arguments</h3>
      <div class="calls" tabIndex={0} role="region" aria-label="Covered calls">
        <ol>{shown.map((c, i) => <Call key={i} of={record(c) ?? {}} />)}</ol>
      </div>
      {shown.length < calls.length && <button type="button" onClick={() => setAll(true)}>Show all {plural(calls.length, 'call')}</button>}
    </section>
  )
}

function Call({ of }: { of: Record<string, Json> }) {
  return (
    <li>
      <details>
        <summary><b><Txt>{text(of['step'])}</Txt></b> <code><Txt>{text(of['tool'])}</Txt></code> <span class="quiet"><Line>{brief(of['args'])}</Line></span></summary>
        <Fields value={of['args']} label="arguments" />
      </details>
    </li>
  )
}

const most = 160

/** brief shows arguments in one line. */
function brief(args: Json): string {
  const parts = Object.entries(record(args) ?? {}).map(([name, v]) => `${name}: ${typeof v === 'string' ? v : compact(v)}`)
  const line = parts.join(', ').replace(/\s+/g, ' ')
  return line.length > most ? line.slice(0, most) + '…' : line
}
