import type { ComponentChildren } from 'preact'
import { announce } from './announce.tsx'

/** Copy is a button that copies a text. */
export function Copy({ text, label, look = 'link', children }: { text: string; label: string; look?: string; children?: ComponentChildren }) {
  const copy = () => {
    navigator.clipboard.writeText(text).then(() => announce('Copied.'), () => announce('The browser does not allow copying.'))
  }
  return <button type="button" class={look} aria-label={label} title={text} onClick={copy}>{children}</button>
}

/** Command is a button that copies the command that does the same as the control beside it. */
export function Command({ text }: { text: string }) {
  return <Copy text={text} label={`Copy as command: ${text}`} look="command" />
}
