// Server-sent events that come back by themselves: a browser gives up after an HTTP error, this does not.
import { address, type Query } from './client.ts'
import { slot } from './slots.ts'

export interface StreamHandlers {
  events: Record<string, (data: string, id: string) => void>
  /** opened is called whenever the stream stands, again is false for the first time. resumed says that it goes on after an event with an id. */
  opened?: (again: boolean, resumed: boolean) => void
  lost?: () => void
}

const firstDelay = 500
const longestDelay = 10_000
/** often and rarely are how long a window without a slot waits until it asks again, while it can be seen and while it cannot, in milliseconds. */
const [often, rarely] = [5000, 30_000]
/** patience is how long such a window waits for the first event, quiet how long after the last one, in milliseconds. */
const [patience, quiet] = [500, 100]

/**
 * stream follows an address until the function that it returns is called. query is evaluated for every connection, with the id of the last event.
 * A browser has few connections to a host, for all its windows. So without a slot the stream is closed once it has said what is new, and opened again later.
 */
export function stream(path: string, query: (last: string) => Query, h: StreamHandlers): () => void {
  let source: EventSource | undefined
  let free: (() => void) | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let [delay, again, last, round] = [firstDelay, false, '', 0]

  const soon = (run: () => void, ms: number): void => { clearTimeout(timer); timer = setTimeout(run, ms) }
  const close = (): void => {
    round++
    clearTimeout(timer)
    source?.close()
    free?.()
    source = free = undefined
  }
  const rest = (): void => { close(); soon(connect, document.hidden ? rarely : often) }
  const heard = (ms: number): void => { if (source && !free) soon(rest, ms) }

  const connect = (): void => {
    const mine = ++round
    void slot().then((got) => {
      if (mine !== round) return got?.()
      free = got
      open()
    })
  }
  const open = (): void => {
    const resumed = last !== ''
    source = new EventSource(address(path, query(last)))
    source.onopen = () => { h.opened?.(again, resumed); [delay, again] = [firstDelay, true]; heard(patience) }
    source.onerror = () => {
      h.lost?.()
      close()
      soon(connect, delay)
      delay = Math.min(delay * 2, longestDelay)
    }
    for (const [name, handle] of Object.entries(h.events)) {
      source.addEventListener(name, (e) => {
        const { data, lastEventId } = e as MessageEvent<string>
        last = lastEventId || last
        heard(quiet)
        handle(data, lastEventId)
      })
    }
  }
  const turned = (): void => { close(); connect() } // a window that is hidden gives its slot to those that are seen
  document.addEventListener('visibilitychange', turned)
  connect()
  return () => { document.removeEventListener('visibilitychange', turned); close() }
}
