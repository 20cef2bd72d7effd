import { codePoint, mayHide, pieces } from '../unseen.ts'

/** Txt shows foreign text as it is: never as markup, and with every invisible character named. */
export function Txt({ children }: { children: string | undefined }) {
  const text = children ?? ''
  if (!mayHide(text)) return <>{text}</>
  return <bdi>{pieces(text).map((p, i) => (p.hidden ? <span key={i} class="unseen" title="an invisible character">{codePoint(p.text)}</span> : p.text))}</bdi>
}

/** Line is Txt for one line of a list, which may be cut off: a plain text without elements of its own. */
export function Line({ children }: { children: string | undefined }) {
  const text = children ?? ''
  return <>{mayHide(text) ? pieces(text).map((p) => (p.hidden ? `⟨${codePoint(p.text)}⟩` : p.text)).join('') : text}</>
}
