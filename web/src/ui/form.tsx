import { useId, useState } from 'preact/hooks'
import type { Json } from '../api.ts'
import { draft, keepDraft } from '../drafts.ts'
import { Exact, exactly, pretty, record, text, texts } from '../json.ts'
import { Txt } from './text.tsx'

export type Values = Record<string, Json>
type Schema = Record<string, Json>

/** initial returns the defaults of a schema. */
export function initial(schema: Json): Values {
  const values: Values = {}
  for (const [name, s] of properties(schema)) if (s['default'] !== undefined) values[name] = s['default']
  return values
}

/** useValues returns the values of a form, and what sets them: what was typed there before and not used yet, under the name of a draft. Passwords are not kept. */
export function useValues(schema: Json, name: string): [Values, (values: Values) => void] {
  const [values, setValues] = useState<Values>(() => record(exactly(draft(name))) ?? initial(schema))
  const set = (next: Values) => {
    const secret = new Set(properties(schema).filter(([, s]) => s['format'] === 'password').map(([n]) => n))
    setValues(next)
    keepDraft(name, pretty(Object.fromEntries(Object.entries(next).filter(([n]) => !secret.has(n)))))
  }
  return [values, set]
}

function properties(schema: Json): [string, Schema][] {
  const all = record(record(schema)?.['properties']) ?? {}
  return Object.entries(all).map(([name, s]) => [name, record(s) ?? {}])
}

/** SchemaForm shows a field for each property of a JSON schema. wrong is the field that the node refused. */
export function SchemaForm(p: { schema: Json; values: Values; onChange: (values: Values) => void; wrong?: string }) {
  const required = texts(record(p.schema)?.['required'])
  const set = (name: string) => (value: Json) => {
    const { [name]: _, ...rest } = p.values
    p.onChange(value === undefined ? rest : { ...rest, [name]: value })
  }
  return (
    <div class="form">
      {properties(p.schema).map(([name, schema]) => (
        <Field
          key={name} name={name} schema={schema} value={p.values[name]} required={required.includes(name)} onChange={set(name)}
          wrong={p.wrong !== undefined && p.wrong !== '' && p.wrong.endsWith(name)}
        />
      ))}
    </div>
  )
}

interface FieldProps { name: string; schema: Schema; value: Json; required: boolean; wrong: boolean; onChange: (value: Json) => void }

function Field(p: FieldProps) {
  const id = useId()
  const title = text(p.schema['title']) || p.name
  const about = text(p.schema['description'])
  const Input = inputs[kindOf(p.schema)]
  const several = kindOf(p.schema) === 'several'
  const label = <><Txt>{title}</Txt>{p.required && <span class="quiet"> (required)</span>}</>
  return (
    <div class={`field ${kindOf(p.schema)} ${p.wrong ? 'wrong' : ''}`} role={several ? 'group' : undefined} aria-labelledby={several ? id + 'l' : undefined}>
      {several ? <span class="label" id={id + 'l'}>{label}</span> : <label for={id}>{label}</label>}
      <Input {...p} id={id} describedBy={about ? id + 'd' : undefined} />
      {about && <p class="quiet small" id={id + 'd'}><Txt>{about}</Txt></p>}
    </div>
  )
}

type Kind = 'choice' | 'several' | 'flag' | 'number' | 'line' | 'lines' | 'json'

/** kindOf chooses the input for a schema. */
function kindOf(s: Schema): Kind {
  if (options(s).length) return 'choice'
  if (s['type'] === 'array' && options(record(s['items']) ?? {}).length) return 'several'
  if (s['type'] === 'boolean') return 'flag'
  if (s['type'] === 'number' || s['type'] === 'integer') return 'number'
  if (s['type'] === 'string') return Number(s['maxLength'] ?? 0) > 200 ? 'lines' : 'line'
  return 'json'
}

interface Option { value: Json; label: string }

/** options returns the values of an enumeration: enum with enumNames, or oneOf and anyOf with const and title. */
function options(s: Schema): Option[] {
  const names = texts(s['enumNames'])
  if (Array.isArray(s['enum'])) return s['enum'].map((value, i) => ({ value, label: names[i] ?? show(value) }))
  const list = s['oneOf'] ?? s['anyOf']
  const all = Array.isArray(list) ? list.map((o) => record(o) ?? {}) : []
  return all.every((o) => 'const' in o) ? all.map((o) => ({ value: o['const'], label: text(o['title']) || show(o['const']) })) : []
}

const show = (v: Json): string => (typeof v === 'string' ? v : pretty(v))

type InputProps = FieldProps & { id: string; describedBy: string | undefined }

function Choice(p: InputProps) {
  const all = options(p.schema)
  const chosen = all.findIndex((o) => show(o.value) === show(p.value))
  return (
    <select id={p.id} aria-describedby={p.describedBy} required={p.required} value={chosen < 0 ? '' : String(chosen)} onChange={(e) => p.onChange(all[Number(e.currentTarget.value || -1)]?.value)}>
      <option value="">–</option>
      {all.map((o, i) => <option key={i} value={String(i)}>{o.label}</option>)}
    </select>
  )
}

function Several(p: InputProps) {
  const chosen = Array.isArray(p.value) ? p.value : []
  const toggle = (v: Json) => p.onChange(chosen.includes(v) ? chosen.filter((c) => c !== v) : [...chosen, v])
  return (
    <>
      {options(record(p.schema['items']) ?? {}).map((o) => (
        <label key={show(o.value)} class="check"><input type="checkbox" checked={chosen.includes(o.value)} onChange={() => toggle(o.value)} /> <Txt>{o.label}</Txt></label>
      ))}
    </>
  )
}

function Flag(p: InputProps) {
  return <input id={p.id} aria-describedby={p.describedBy} type="checkbox" checked={p.value === true} onChange={(e) => p.onChange(e.currentTarget.checked)} />
}

function NumberInput(p: InputProps) {
  const limit = (name: string): number | undefined => (typeof p.schema[name] === 'number' ? p.schema[name] : undefined)
  return (
    <input
      id={p.id} aria-describedby={p.describedBy} type="number" required={p.required} min={limit('minimum')} max={limit('maximum')}
      step={p.schema['type'] === 'integer' ? 1 : 'any'} value={p.value === undefined ? '' : show(p.value)}
      onInput={(e) => p.onChange(numberOf(e.currentTarget.value))}
    />
  )
}

const numberOf = (typed: string): Json => (typed === '' ? undefined : /^-?\d{16,}$/.test(typed) ? new Exact(typed) : Number(typed))

const formats: Record<string, 'email' | 'url' | 'date' | 'password' | undefined> = { email: 'email', uri: 'url', date: 'date', password: 'password' }

function Line(p: InputProps) {
  return (
    <input
      id={p.id} aria-describedby={p.describedBy} type={(formats[text(p.schema['format'])] ?? 'text') as 'text'} required={p.required} autocomplete="off"
      minLength={lengthOf(p.schema['minLength'])} maxLength={lengthOf(p.schema['maxLength'])} value={text(p.value)}
      onInput={(e) => p.onChange(e.currentTarget.value || undefined)}
    />
  )
}

const lengthOf = (v: Json): number | undefined => (typeof v === 'number' ? v : undefined)

function Lines(p: InputProps) {
  return <textarea id={p.id} aria-describedby={p.describedBy} rows={4} required={p.required} value={text(p.value)} onInput={(e) => p.onChange(e.currentTarget.value || undefined)} />
}

function JsonInput(p: InputProps) {
  const change = (e: { currentTarget: HTMLTextAreaElement }) => {
    const typed = e.currentTarget
    try {
      typed.setCustomValidity('')
      p.onChange(typed.value === '' ? undefined : (JSON.parse(typed.value) as Json))
    } catch {
      typed.setCustomValidity('This is not JSON.')
    }
  }
  return <textarea id={p.id} aria-describedby={p.describedBy} class="code" rows={4} required={p.required} defaultValue={p.value === undefined ? '' : pretty(p.value)} onInput={change} />
}

const inputs = { choice: Choice, several: Several, flag: Flag, number: NumberInput, line: Line, lines: Lines, json: JsonInput }
