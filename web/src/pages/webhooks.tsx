import type { DestinationsReply, DestinationView, HooksReply, HookView } from '../api.ts'
import { commands } from '../commands.ts'
import { count, plural } from '../format.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Past } from '../ui/time.tsx'
import { live, useGet, useTitle, type Read } from '../ui/use.ts'
import { destinationState, does, hookState, providerName } from '../webhooks.ts'
import { DestinationPage } from './destination.tsx'
import { HookPage, Result } from './hook.tsx'

/** WebhooksPage shows what other systems send to the node and what it sends to them, or one hook or destination. */
export function WebhooksPage({ kind, name }: { kind: string; name: string }) {
  if (kind === 'hook' && name) return <HookPage key={name} name={name} />
  if (kind === 'destination' && name) return <DestinationPage key={name} name={name} />
  return <Both />
}

const reading = (r: Pick<Read<unknown>, 'data' | 'problem'>): boolean => r.data === undefined && r.problem === undefined

function Both() {
  useTitle('Webhooks')
  const hooks = useGet<HooksReply>('/hooks', { deliveries: 1, brief: true }, live)
  const out = useGet<DestinationsReply>('/destinations', {}, live)
  return (
    <div class="scroll">
      <h1>Webhooks</h1>
      <Problem of={hooks.problem ?? out.problem} />
      <h2>Hooks: what comes in</h2>
      <p class="quiet">Other systems deliver to a hook, which starts or signals a task.</p>
      {hooks.data && <Hooks of={hooks.data.hooks} />}
      <h2>Destinations: what goes out</h2>
      <p class="quiet">The node delivers what happens to tasks and approvals to a destination, signed, until it arrives.</p>
      {out.data && <Destinations of={out.data.destinations} />}
      {(reading(hooks) || reading(out)) && <Loading />}
    </div>
  )
}

function Hooks({ of }: { of: HookView[] }) {
  if (of.length === 0) return <Empty title="There is no hook."><>Start a task with each push: <code>{commands.hookCreate()}</code> <Command text={commands.hookCreate()} /></></Empty>
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Hooks">
      <table class="roomy">
        <thead><tr><th>Hook</th><th>Provider</th><th>What it does</th><th>State</th><th>Last delivery</th><th>Not taken</th></tr></thead>
        <tbody>{of.map((h) => <HookRow key={h.name} of={h} />)}</tbody>
      </table>
    </div>
  )
}

function HookRow({ of: h }: { of: HookView }) {
  const [look, word] = hookState(h)
  const last = h.deliveries[0]
  return (
    <tr>
      <th scope="row" data-label="Hook"><a href={href(`/webhooks/hook/${h.name}`)}>{h.name}</a>{h.definition.note && <div class="quiet small"><Txt>{h.definition.note}</Txt></div>}</th>
      <td data-label="Provider">{providerName(h)}</td>
      <td data-label="What it does"><Txt>{does(h)}</Txt></td>
      <td data-label="State"><span class={`state ${look}`}>{word}</span></td>
      <td data-label="Last delivery">{last ? <span><Result of={last.result} /> <span class="quiet small"><Past at={last.at} /></span></span> : 'none'}</td>
      <td data-label="Not taken"><NotTaken of={h} /></td>
    </tr>
  )
}

/** NotTaken counts the deliveries that were refused and the requests that were rejected, with why the last ones were. */
function NotTaken({ of: h }: { of: HookView }) {
  const { refused = 0, rejected = 0 } = h.counts
  if (refused + rejected === 0) return <>none</>
  return (
    <>
      {refused > 0 && <div>{count(refused)} refused{h.last_refused && <span class="quiet small">: <Txt>{h.last_refused.reason}</Txt></span>}</div>}
      {rejected > 0 && <div>{count(rejected)} rejected{h.last_rejected && <span class="quiet small">: <Txt>{h.last_rejected.reason}</Txt></span>}</div>}
    </>
  )
}

function Destinations({ of }: { of: DestinationView[] }) {
  if (of.length === 0) return <Empty title="There is no destination."><>Tell a pager about failed tasks: <code>{commands.destinationCreate()}</code> <Command text={commands.destinationCreate()} /></></Empty>
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Destinations">
      <table class="roomy">
        <thead><tr><th>Destination</th><th>Events</th><th>State</th><th>Waiting</th><th>Last failure</th><th class="num">Dead letters</th></tr></thead>
        <tbody>{of.map((d) => <DestinationRow key={d.name} of={d} />)}</tbody>
      </table>
    </div>
  )
}

function DestinationRow({ of: d }: { of: DestinationView }) {
  const [look, word] = destinationState(d)
  return (
    <tr>
      <th scope="row" data-label="Destination">
        <a href={href(`/webhooks/destination/${d.name}`)}>{d.name}</a>
        <div class="small"><code><Txt>{d.definition.url}</Txt></code></div>
        {d.definition.note && <div class="quiet small"><Txt>{d.definition.note}</Txt></div>}
      </th>
      <td data-label="Events"><Txt>{(d.definition.events ?? []).join(', ') || 'all'}</Txt></td>
      <td data-label="State"><span class={`state ${look}`}>{word}</span></td>
      <td data-label="Waiting"><Waiting of={d} /></td>
      <td data-label="Last failure">{d.last_failure ? <span><Txt>{d.last_failure.error}</Txt> <span class="quiet small"><Past at={d.last_failure.at} /></span></span> : 'none'}</td>
      <td class="num" data-label="Dead letters">{count(d.dead)}</td>
    </tr>
  )
}

/** Waiting says how many events wait for a destination, and since when the oldest does. */
export function Waiting({ of: d }: { of: DestinationView }) {
  if (!d.pending) return <>none</>
  return <span>{plural(d.pending, 'event')}{d.full && ', and more in the log'}{d.oldest_pending && <span class="quiet small">, the oldest from <Past at={d.oldest_pending} /></span>}</span>
}
