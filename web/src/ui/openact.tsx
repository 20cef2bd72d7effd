import { useEffect } from 'preact/hooks'
import { aborted, Fault } from '../client.ts'
import { entries } from '../format.ts'
import { forgetAct, learn, learned, openAct, told, whatBecame, type OpenAct } from '../openact.ts'
import { Txt } from './text.tsx'
import { later, mayPass } from './use.ts'

/** pause is how long the page waits until it asks again, in milliseconds. */
const pause = 1000

/** OpenActNote says on every page that the node has not answered to an act on many, asks until it does, and says what became of the act. */
export function OpenActNote() {
  const a = openAct.value
  const is = learned.value
  useEffect(() => (a && !is ? asking(a) : undefined), [a, is])
  if (!a) return null
  const what = `${a.verb} ${entries(a.ids.length)}`
  if (!is) return <section class="banner" role="status"><p>{what}: it is not known what the node has done, it has not answered. This page asks again when it answers; do not do it again until then.</p></section>
  return (
    <section class="banner" role="status">
      <p>{what}, to which the node had not answered: {is.text}</p>
      {is.results.size > 0 && (
        <details>
          <summary>The entries</summary>
          <ul class="plainlist">{a.ids.slice(0, told).map((id, i) => <li key={id}><Txt>{a.titles[i] ?? id}</Txt>: <Txt>{is.results.get(id)?.text ?? ''}</Txt></li>)}</ul>
        </details>
      )}
      <button type="button" onClick={forgetAct}>I have read it</button>
    </section>
  )
}

/** asking asks the node what became of an act, until it is known or the returned function is called. */
function asking(a: OpenAct): () => void {
  const abort = new AbortController()
  const again = (): void => later(pause, ask, abort.signal)
  const ask = (): void => {
    whatBecame(a, abort.signal).then((is) => {
      if (abort.signal.aborted) return
      if (is) learn(a, is)
      else again()
    }, (e: unknown) => {
      if (aborted(e) || abort.signal.aborted) return
      if (mayPass(e)) again()
      else if (!(e instanceof Fault && e.status === 401)) learn(a, { text: `it stays unknown. ${e instanceof Fault ? e.message : String(e)}`, results: new Map(), left: a.ids.length })
    })
  }
  ask()
  return () => abort.abort()
}
