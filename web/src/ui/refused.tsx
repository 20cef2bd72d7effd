import type { Wrong } from '../refused.ts'
import { query, setQuery } from '../route.ts'
import { Txt } from './text.tsx'

/** Refused says which values in the address do not exist, and takes them out. */
export function Refused({ of, says = 'Nothing is listed: the address of this page has filters that do not exist.' }: { of: Wrong[]; says?: string }) {
  const remove = (w: Wrong) => setQuery({ [w.param]: query.value.getAll(w.param).filter((v) => v !== w.value) })
  return (
    <div class="problem" role="alert">
      <p>{says}</p>
      <ul class="plainlist">{of.map((w) => <li key={w.param + w.value}><Txt>{w.why}</Txt> <button type="button" onClick={() => remove(w)}>Remove <Txt>{`${w.param} ${w.value}`}</Txt></button></li>)}</ul>
    </div>
  )
}
