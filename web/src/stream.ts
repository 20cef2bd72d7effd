// Server-sent events that come back by themselves: a browser gives up after an HTTP error, this does not.
import { address, type Query } from './client.ts'

export interface StreamHandlers {
  events: Record<string, (data: string, id: string) => void>
  /** opened is called whenever the stream stands, again is false for the first time. */
  opened?: (again: boolean) => void
  lost?: () => void
}

const firstDelay = 500
const longestDelay = 10_000

/** stream follows an address until the function that it returns is called. query is evaluated for every connection. */
export function stream(path: string, query: () => Query, h: StreamHandlers): () => void {
  let source: EventSource | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let [delay, again] = [firstDelay, false]

  const connect = (): void => {
    source = new EventSource(address(path, query()))
    source.onopen = () => { h.opened?.(again); [delay, again] = [firstDelay, true] }
    source.onerror = () => {
      h.lost?.()
      source?.close()
      timer = setTimeout(connect, delay)
      delay = Math.min(delay * 2, longestDelay)
    }
    for (const [name, handle] of Object.entries(h.events)) {
      source.addEventListener(name, (e) => handle((e as MessageEvent<string>).data, (e as MessageEvent<string>).lastEventId))
    }
  }
  connect()
  return () => { clearTimeout(timer); source?.close() }
}
