import { signal } from '@preact/signals'

const message = signal('')
let timer: ReturnType<typeof setTimeout> | undefined

/** announce shows a short message for some seconds, and lets screen readers say it. */
export function announce(text: string): void {
  message.value = text
  clearTimeout(timer)
  timer = setTimeout(() => { message.value = '' }, 5000)
}

/** Announcer is where messages appear. */
export function Announcer() {
  return <div class="toast" role="status">{message.value}</div>
}
