import { ago, duration, moment, rest } from '../format.ts'
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

/** Waiting says how long something has waited for people: for 3h, just now. */
export function Waiting({ at }: { at: string }) {
  const t = Date.parse(at)
  const text = ago(t, now.value)
  return <time dateTime={at} title={moment(t)}>{text === 'now' ? 'just now' : `for ${text}`}</time>
}

/** Expires says how much time is left in a sentence, with the figure of Left: expires in 1h53m, expired. */
export function Expires({ at }: { at: string }) {
  const t = Date.parse(at)
  const left = t - now.value
  return <time dateTime={at} title={moment(t)}>{left <= 0 ? 'expired' : `expires in ${rest(left)}`}</time>
}

/** soon is from when on a time that is left is marked, in milliseconds. */
const soon = 10 * 60_000

/** Left shows how much time is left until a time: 52m left, expired. */
export function Left({ at }: { at: string }) {
  const t = Date.parse(at)
  const left = t - now.value
  return <time dateTime={at} class={left < soon ? 'soon' : undefined} title={`until ${moment(t)}`}>{left <= 0 ? 'expired' : `${rest(left)} left`}</time>
}

/** Until shows how long it takes until a time in a sentence: in 2h35m, now. */
export function Until({ at }: { at: string }) {
  const t = Date.parse(at)
  const left = t - now.value
  return <time dateTime={at} title={moment(t)}>{left < 1000 ? 'now' : `in ${duration(left)}`}</time>
}
