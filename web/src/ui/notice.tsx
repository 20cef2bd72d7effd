import type { ComponentChildren } from 'preact'
import { Fault } from '../client.ts'
import { Txt } from './text.tsx'

/** Problem shows an error with its code and what to do about it. */
export function Problem({ of }: { of: unknown }) {
  if (!of) return null
  const f = of instanceof Fault ? of : new Fault(0, { message: String(of), code: 'INTERNAL' })
  return (
    <div class="problem" role="alert">
      <p><Txt>{f.message}</Txt> <code>{f.code}</code>{f.field && <> · field <code><Txt>{f.field}</Txt></code></>}</p>
      {f.hint && <p class="quiet"><Txt>{f.hint}</Txt></p>}
      {f.requestID && <p class="quiet small">Request {f.requestID}</p>}
    </div>
  )
}

/** Empty says that there is nothing, and what that means. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="strong">{title}</p>{children && <p class="quiet">{children}</p>}</div>
}

/** Loading holds the place of what is being read. */
export const Loading = () => <p class="quiet loading">Reading…</p>
