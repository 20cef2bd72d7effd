import { signal } from '@preact/signals'

const message = signal('')
let about = ''
let timer: ReturnType<typeof setTimeout> | undefined

/** announce shows a short message for some seconds, and lets screen readers say it. of is the entry that it is about, '' for the one that is shown. */
export function announce(text: string, of = ''): void {
  message.value = text
  about = of
  clearTimeout(timer)
  timer = setTimeout(() => { message.value = '' }, 5000)
}

/** hush takes a message away when an entry is shown that it is not about. */
export function hush(shown: string): void {
  if (about !== shown) message.value = ''
}

/** Announcer is where messages appear. */
export function Announcer() {
  return <div class="toast" role="status">{message.value}</div>
}
