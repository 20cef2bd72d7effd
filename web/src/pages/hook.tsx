import type { HookOutcome, HookResult, HookView } from '../api.ts'
import { count, words } from '../format.ts'
import { href } from '../route.ts'
import { Copy } from '../ui/copy.tsx'
import { JsonView } from '../ui/json.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago, Past } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { at, does, hookState, providerName, signs } from '../webhooks.ts'
import { HookActions } from './hookactions.tsx'
import { isMissing } from './missing.tsx'
import { Heading, SecretFact, type Known } from './webhook.tsx'

const looks: Record<HookResult, string> = { accepted: 'good', duplicate: 'off', filtered: 'off', refused: 'bad', rejected: 'bad', limited: 'block', failed: 'block' }

/** Result shows what became of a delivery to a hook. */
export const Result = ({ of }: { of: HookResult }) => <span class={`state ${looks[of] ?? 'wait'}`}>{words(of)}</span>

const kept = 100

/** HookPage shows a hook with its last deliveries. */
export function HookPage({ name }: { name: string }) {
  useTitle(name)
  const self = at('hook', name)
  const read = useGet<HookView>(self.path, { deliveries: kept }, live)
  const h = read.data
  const known: Known | undefined = h && { at: self, state: hookState(h), paused: h.paused, note: h.definition.note }
  if (isMissing(read.problem)) return <div class="scroll"><h1>Webhooks</h1><Empty title="There is no such hook."><a href={href('/webhooks')}>All webhooks</a></Empty></div>
  return (
    <div class="scroll">
      <Heading of={known} at={self} />
      <Problem of={read.problem} />
      {!h && !read.problem && <Loading />}
      {h && <Facts of={h} />}
      {h && <HookActions of={h} onChange={read.reload} />}
      {h && <h2>Last deliveries</h2>}
      {h && <Deliveries of={h.deliveries} />}
      {h && <Definition of={h} />}
    </div>
  )
}

function Facts({ of: h }: { of: HookView }) {
  const d = h.definition
  return (
    <dl class="facts wide">
      <div><dt>Address</dt><dd>{h.url ? <><code><Txt>{h.url}</Txt></code> <Copy text={h.url} label="Copy the address">Copy</Copy></> : 'none: the node does not serve HTTP'}</dd></div>
      <div><dt>Provider</dt><dd>{providerName(h)}{!signs(h) && <span class="quiet">: the sender needs the token of an operator</span>}</dd></div>
      <div><dt>What it does</dt><dd><Txt>{does(h)}</Txt>, <a href={href('/tasks', { label: `hook=${h.name}` })}>its tasks</a></dd></div>
      {d.when && <div><dt>When</dt><dd><code><Txt>{d.when}</Txt></code></dd></div>}
      <div><dt>Defined</dt><dd>by <Txt>{h.requestor}</Txt>, for whom its tasks act, <Past at={h.updated_at} /></dd></div>
      {signs(h) && <SecretFact has={h.has_secret} previous={h.previous_until} without="it takes nothing" both="is valid too" />}
      <div><dt>Deliveries</dt><dd><Counts of={h} /></dd></div>
      {h.last_rejected && <div><dt>Rejected</dt><dd>last <Past at={h.last_rejected.at} />: <Txt>{h.last_rejected.reason}</Txt></dd></div>}
    </dl>
  )
}

/** sinceStart are the results that are counted since the node started. */
const sinceStart: HookResult[] = ['rejected', 'limited', 'failed']

function Counts({ of: h }: { of: HookView }) {
  const of = (results: HookResult[]) => results.filter((r) => h.counts[r]).map((r) => `${count(h.counts[r] ?? 0)} ${r}`).join(', ')
  const ever = of(['accepted', 'duplicate', 'filtered', 'refused'])
  const lately = of(sinceStart)
  return <>{ever || 'none'}{lately && <span class="quiet">; since the node started {lately}</span>}</>
}

function Deliveries({ of }: { of: HookOutcome[] }) {
  if (of.length === 0) return <p class="quiet">None has come yet. Requests without a valid signature are counted, and not listed.</p>
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Last deliveries">
      <table class="roomy">
        <thead><tr><th>Came</th><th>Event</th><th>Result</th><th>Task</th><th>Why</th></tr></thead>
        <tbody>
          {of.map((o, i) => (
            <tr key={`${o.at}${o.delivery ?? ''}${i}`}>
              <th scope="row" data-label="Came"><Ago at={o.at} /><div class="quiet small"><code><Txt>{o.delivery}</Txt></code></div></th>
              <td data-label="Event"><Txt>{o.event || '–'}</Txt></td>
              <td data-label="Result"><Result of={o.result} /></td>
              <td data-label="Task">{o.task ? <a href={href(`/tasks/${o.task}`)}><code>{o.task}</code></a> : '–'}</td>
              <td data-label="Why"><Txt>{o.reason || '–'}</Txt></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Definition({ of: h }: { of: HookView }) {
  return (
    <details>
      <summary>Its definition</summary>
      <JsonView value={h.definition} label="definition" />
    </details>
  )
}
