import { ago, moment } from '../format.ts'
import { now } from '../node.ts'

/** Ago shows how long ago a time was, and the time itself as its title. */
export function Ago({ at }: { at: string | undefined }) {
  const t = Date.parse(at ?? '')
  if (!Number.isFinite(t)) return <span>–</span>
  return <time dateTime={at} title={moment(t)}>{ago(t, now.value)}</time>
}

/** Past shows how long ago a time was in a sentence: just now, 3h ago. */
export function Past({ at }: { at: string | undefined }) {
  const t = Date.parse(at ?? '')
  const text = ago(t, now.value)
  return <time dateTime={at} title={moment(t)}>{text === 'now' ? 'just now' : `${text} ago`}</time>
}
