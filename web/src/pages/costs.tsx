import type { BudgetView, CostRow, CostsReply, CostSum } from '../api.ts'
import { nodeTime, timeIsKnown } from '../clock.ts'
import { commands } from '../commands.ts'
import { amount, byOf, choiceOf, firstDay, kinds, lostText, part, periods, requested, wrongOf, type Choice } from '../costs.ts'
import { count, dollars, words } from '../format.ts'
import { status } from '../node.ts'
import { href, query, setQuery } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { FilterText } from '../ui/filter.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Refused } from '../ui/refused.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Until } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'

/** CostsPage says what requests to models cost, by what is chosen, and what is left of the budgets. */
export function CostsPage() {
  useTitle('Costs')
  const wrong = wrongOf(query.value)
  return wrong.length > 0 ? <div class="scroll"><h1>Costs</h1><Refused of={wrong} /></div> : <Chosen />
}

/** Chosen are the costs of the choice of the address. */
function Chosen() {
  const choice = choiceOf(query.value)
  const by = byOf(choice)
  const known = timeIsKnown() || status.value !== undefined // the days are those of the node
  const costs = useGet<CostsReply>(known ? by && '/costs' : '', { by, since: firstDay(choice.since, nodeTime()) }, live)
  const command = commands.costs(by, choice.since)
  return (
    <div class="scroll">
      <h1>Costs</h1>
      <p class="quiet">What agents have spent on requests to language models. Days begin at midnight UTC. {by && <Command text={command} />}</p>
      <Choose of={choice} />
      {!by && <Empty title="By which label?">Name its key, such as team.</Empty>}
      <Problem of={costs.problem} />
      {by && !costs.data && !costs.problem && <Loading />}
      {costs.data?.behind && <p class="note">The node still counts what was in its log when it started: these costs are not complete.</p>}
      {costs.data && (costs.data.rows.length === 0 ? <Empty title="No model was asked in this time." /> : <Rows of={costs.data} choice={choice} />)}
      {(costs.data?.budgets ?? []).length > 0 && <Budgets of={costs.data?.budgets ?? []} />}
    </div>
  )
}

function Choose({ of: c }: { of: Choice }) {
  return (
    <form class="filters" aria-label="What is shown" onSubmit={(e) => e.preventDefault()}>
      <div class="chips" role="group" aria-label="By">
        {kinds.map((k) => <button key={k} type="button" aria-pressed={k === c.by} onClick={() => setQuery({ by: k === 'day' ? undefined : k })}>{words(k)}</button>)}
      </div>
      <div class="row">
        <div class="field">
          <label for="costs-since">Since</label>
          <select id="costs-since" value={c.since} onChange={(e) => setQuery({ since: e.currentTarget.value })}>{periods.map((p) => <option key={p} value={p}>{p}</option>)}</select>
        </div>
        {c.by === 'label' && <FilterText id="costs-label" label="Key of the label" value={c.label} hint="team" onChange={(label) => setQuery({ label })} />}
      </div>
    </form>
  )
}

const shown = 100

function Rows({ of, choice }: { of: CostsReply; choice: Choice }) {
  const most = Math.max(1, ...of.rows.map((r) => r.nano_usd))
  return (
    <>
      <div class="tablebox stack" tabIndex={0} role="region" aria-label={`Costs by ${choice.by}`}>
        <table class="roomy costs">
          <thead><tr><th>{choice.by === 'label' ? choice.label : words(choice.by)}</th><th>Cost</th><th class="num">Turns</th><th class="num">Tokens in</th><th class="num">Tokens out</th><th>Lost</th></tr></thead>
          <tbody>
            {of.rows.slice(0, shown).map((r) => <Row key={r.key + String(r.older)} of={r} most={most} choice={choice} />)}
            <tr class="total"><th scope="row" data-label="">Total</th><Amounts of={of.total} /></tr>
          </tbody>
        </table>
      </div>
      {of.rows.length > shown && <p class="quiet">The first {shown} of {count(of.rows.length)}.</p>}
    </>
  )
}

function Row({ of: r, most, choice }: { of: CostRow; most: number; choice: Choice }) {
  return (
    <tr>
      <th scope="row" data-label={choice.by === 'label' ? choice.label : words(choice.by)}><Key of={r} choice={choice} /></th>
      <Amounts of={r} share={r.nano_usd / most} />
    </tr>
  )
}

/** Key names a row, and leads to its tasks if there is a way. */
function Key({ of: r, choice }: { of: CostRow; choice: Choice }) {
  if (r.older) return <span class="quiet">older, not itemized any more</span>
  if (!r.key) return <span class="quiet">none</span>
  const to = { task: href(`/tasks/${r.key}`), identity: href('/tasks', { requestor: r.key }), label: href('/tasks', { label: `${choice.label}=${r.key}` }), day: '', model: '', agent: '' }[choice.by]
  return to ? <a href={to}><Line>{r.key}</Line></a> : <Txt>{r.key}</Txt>
}

function Amounts({ of: s, share }: { of: CostSum; share?: number }) {
  return (
    <>
      <td data-label="Cost"><span>{dollars(s.nano_usd)}</span>{share !== undefined && <i class="share" aria-hidden="true"><i style={{ width: `${share * 100}%` }} /></i>}</td>
      <td class="num" data-label="Turns">{count(s.turns)}</td>
      <td class="num" data-label="Tokens in"><span title={`${count(s.cache_read ?? 0)} of them from the cache`}>{count(requested(s))}</span></td>
      <td class="num" data-label="Tokens out">{count(s.output)}</td>
      <td data-label="Lost">{lostText(s) || <span class="quiet">–</span>}</td>
    </>
  )
}

function Budgets({ of }: { of: BudgetView[] }) {
  return (
    <section class="part">
      <h2>Budgets</h2>
      <div class="tablebox stack" tabIndex={0} role="region" aria-label="Budgets">
        <table class="roomy">
          <thead><tr><th>Budget</th><th>Spent</th><th>Limit</th><th>Held by turns without an answer</th><th>Begins anew</th></tr></thead>
          <tbody>
            {of.map((b) => (
              <tr key={b.name + (b.identity ?? '')}>
                <th scope="row" data-label="Budget"><Txt>{b.name}</Txt></th>
                <td data-label="Spent"><span>{amount(b.spent)}</span><progress aria-label={`Spent of ${b.name}`} value={part(b)} /></td>
                <td data-label="Limit">{amount(b.limit)}</td>
                <td data-label="Held">{b.held ? amount(b.held) : <span class="quiet">–</span>}</td>
                <td data-label="Begins anew"><Until at={b.until} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
