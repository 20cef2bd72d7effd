// Server-sent events that come back by themselves: a browser gives up after an HTTP error, this does not.
import { address, type Query } from './client.ts'

export interface StreamHandlers {
  events: Record<string, (data: string, id: string) => void>
  /** opened is called whenever the stream stands, again is false for the first time. resumed says that it goes on after an event with an id. */
  opened?: (again: boolean, resumed: boolean) => void
  lost?: () => void
}

const firstDelay = 500
const longestDelay = 10_000

/** stream follows an address until the function that it returns is called. query is evaluated for every connection, with the id of the last event. */
export function stream(path: string, query: (last: string) => Query, h: StreamHandlers): () => void {
  let source: EventSource | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let [delay, again, last] = [firstDelay, false, '']

  const connect = (): void => {
    const resumed = last !== ''
    source = new EventSource(address(path, query(last)))
    source.onopen = () => { h.opened?.(again, resumed); [delay, again] = [firstDelay, true] }
    source.onerror = () => {
      h.lost?.()
      source?.close()
      timer = setTimeout(connect, delay)
      delay = Math.min(delay * 2, longestDelay)
    }
    for (const [name, handle] of Object.entries(h.events)) {
      source.addEventListener(name, (e) => {
        const { data, lastEventId } = e as MessageEvent<string>
        last = lastEventId || last
        handle(data, lastEventId)
      })
    }
  }
  connect()
  return () => { clearTimeout(timer); source?.close() }
}
