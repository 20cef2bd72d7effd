import { useEffect, useState } from 'preact/hooks'
import type { DeliveryView, DestinationView } from '../api.ts'
import { count } from '../format.ts'
import { decides } from '../node.ts'
import { orch } from '../reach.ts'
import { href } from '../route.ts'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago, Past } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { at, destinationState } from '../webhooks.ts'
import { DestinationActions, Redeliver } from './destinationactions.tsx'
import { isMissing } from './missing.tsx'
import { Heading, SecretFact, type Known } from './webhook.tsx'
import { Waiting } from './webhooks.tsx'

/** shown is how many dead letters and how many waiting deliveries the page lists. */
const shown = 100

/** DestinationPage shows a destination with its dead letters and what waits for it. */
export function DestinationPage({ name }: { name: string }) {
  useTitle(name)
  const self = at('destination', name)
  const read = useGet<DestinationView>(self.path, { deliveries: shown }, live)
  const d = read.data
  const [round, setRound] = useState(0)
  useEffect(() => { if (round > 0) document.getElementById('deliveries')?.focus() }, [round]) // its button is gone
  const redelivered = () => { read.reload(); setRound(round + 1) }
  const known: Known | undefined = d && { at: self, state: destinationState(d), paused: d.paused, note: d.definition.note }
  if (isMissing(read.problem)) return <div class="scroll"><h1>Webhooks</h1><Empty title="There is no such destination."><a href={href('/webhooks')}>All webhooks</a></Empty></div>
  return (
    <div class="scroll">
      <Heading of={known} at={self} />
      <Problem of={read.problem} />
      {!d && !read.problem && <Loading />}
      {d && <Facts of={d} />}
      {d && <DestinationActions of={d} onChange={read.reload} onRedelivered={redelivered} />}
      {d && <h2 id="deliveries" tabIndex={-1}>Deliveries that have not arrived</h2>}
      {d && <Deliveries of={d} onChange={redelivered} />}
    </div>
  )
}

function Facts({ of: d }: { of: DestinationView }) {
  const { url, events, labels, when } = d.definition
  return (
    <dl class="facts wide">
      <div><dt>URL</dt><dd><code><Txt>{url}</Txt></code></dd></div>
      <div><dt>Events</dt><dd><Txt>{(events ?? []).join(', ') || 'all'}</Txt></dd></div>
      {labels && <div><dt>Labels</dt><dd>{Object.entries(labels).map(([k, v]) => <span key={k} class="label"><Txt>{`${k}=${v}`}</Txt></span>)}</dd></div>}
      {when && <div><dt>When</dt><dd><code><Txt>{when}</Txt></code></dd></div>}
      <div><dt>Defined</dt><dd>by <Txt>{d.requestor}</Txt>, <Past at={d.updated_at} /></dd></div>
      <SecretFact has={d.has_secret} previous={d.previous_until} without="nothing is delivered" both="signs too" />
      <div><dt>Delivered</dt><dd>{count(d.delivered)}{d.last_delivered && <span class="quiet">, the last <Past at={d.last_delivered} /></span>}</dd></div>
      <div><dt>Waiting</dt><dd><Waiting of={d} /></dd></div>
      <div><dt>Dead letters</dt><dd>{count(d.dead)}</dd></div>
      {d.last_failure && <div><dt>Last failure</dt><dd><Txt>{d.last_failure.error}</Txt>, <Past at={d.last_failure.at} /></dd></div>}
    </dl>
  )
}

function Deliveries({ of: d, onChange }: { of: DestinationView; onChange: () => void }) {
  const dead = d.dead_deliveries ?? []
  const waiting = d.pending_deliveries ?? []
  const more = d.dead + d.pending - dead.length - waiting.length
  if (dead.length + waiting.length === 0) return <p class="quiet">Nothing waits, and there are no dead letters. What has arrived is only counted.</p>
  return (
    <>
      <div class="tablebox stack" tabIndex={0} role="region" aria-label="Deliveries">
        <table class="roomy">
          <thead><tr><th>Event</th><th>State</th><th>Happened</th><th class="num">Attempts</th><th>Last attempt</th>{decides.value && <th>Redeliver</th>}</tr></thead>
          <tbody>
            {dead.map((one) => <Row key={one.id} of={one} name={d.name} onChange={onChange} />)}
            {waiting.map((one) => <Row key={one.id} of={one} name={d.name} onChange={onChange} />)}
          </tbody>
        </table>
      </div>
      {more > 0 && <p class="quiet">These are the oldest. There are {count(more)} more: <code>{orch('destination', 'deliveries', d.name, '-n', '1000')}</code></p>}
    </>
  )
}

function Row({ of: one, name, onChange }: { of: DeliveryView; name: string; onChange: () => void }) {
  const waits = one.next_at !== undefined
  return (
    <tr>
      <th scope="row" data-label="Event"><Txt>{one.type}</Txt><div class="small"><a href={href(`/tasks/${one.task}`)} title="Its task"><code><Txt>{one.id}</Txt></code></a></div></th>
      <td data-label="State">{waits ? <span><span class="state wait">Waiting</span><div class="quiet small">next <Ago at={one.next_at} /></div></span> : <span class="state bad">Dead letter</span>}</td>
      <td data-label="Happened"><Past at={one.at} /></td>
      <td class="num" data-label="Attempts">{one.attempts}</td>
      <td data-label="Last attempt">{one.last ? <span><Txt>{one.last.error}</Txt> <span class="quiet small"><Past at={one.last.at} /></span></span> : 'none yet'}</td>
      {decides.value && <td data-label="Redeliver">{waits ? '–' : <Redeliver name={name} of={one} onChange={onChange} />}</td>}
    </tr>
  )
}
