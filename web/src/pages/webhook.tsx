import type { PausedBy } from '../api.ts'
import { moment } from '../format.ts'
import { href } from '../route.ts'
import { Txt } from '../ui/text.tsx'
import { Past } from '../ui/time.tsx'
import type { At } from '../webhooks.ts'

/** Known is what is the same in hooks and destinations. */
export interface Known { at: At; state: [string, string]; paused: PausedBy | undefined; note: string | undefined }

/** Heading names a hook or a destination, with its state once that is known. */
export function Heading({ at, of }: { at: At; of: Known | undefined }) {
  const paused = of?.paused
  return (
    <>
      <p><a href={href('/webhooks')}>← All webhooks</a></p>
      <h1><span class="quiet">{at.kind === 'hook' ? 'Hook' : 'Destination'}</span> <Txt>{at.name}</Txt></h1>
      {of && <p><span class={`state ${of.state[0]}`}>{of.state[1]}</span>{paused && <> by <Txt>{paused.by}</Txt>, <Past at={paused.at} />{paused.note && <>: <Txt>{paused.note}</Txt></>}</>}</p>}
      {of?.note && <p class="quiet"><Txt>{of.note}</Txt></p>}
    </>
  )
}

/** SecretFact says whether there is a secret, and until when the one before it counts. without and both say what that means. */
export function SecretFact(p: { has: boolean; previous: string | undefined; without: string; both: string }) {
  return (
    <div>
      <dt>Secret</dt>
      <dd>{p.has ? 'set' : <span class="wrongtext">missing, so {p.without}: rotate it</span>}{p.previous && <>; the one before {p.both} until {moment(p.previous)}</>}</dd>
    </div>
  )
}
