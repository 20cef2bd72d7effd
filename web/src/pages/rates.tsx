import type { ListReply } from '../api.ts'
import { count, plural } from '../format.ts'
import { now } from '../node.ts'
import { firstHour, hour, hourly } from '../rates.ts'
import { href } from '../route.ts'
import { useGet } from '../ui/use.ts'

/** every is how often the rates are read again, in milliseconds. */
const every = 60_000
const most = 1000

/** Rates says how many tasks have failed in each of the last 24 hours, and how many were done in this and the last hour. */
export function Rates() {
  const at = Math.floor(now.value / every) * every
  const first = firstHour(at)
  const failed = useGet<ListReply>('/tasks', { state: 'FAILED', changed_since: new Date(first).toISOString(), limit: most }, every)
  const done = useGet<ListReply>('/tasks', { state: 'DONE', changed_since: new Date(Math.floor(at / hour) * hour - hour).toISOString(), limit: most }, every)
  if (!failed.data || !done.data) return null
  const tasks = failed.data.tasks ?? []
  return (
    <section class="part" aria-labelledby="rates">
      <h2 id="rates">The last 24 hours</h2>
      <p>
        <a href={href('/tasks', { state: 'FAILED', since: '24h' })}>{plural(tasks.length, 'failed task')}</a>{failed.data.next && ' and more'};
        {' '}{count(done.data.tasks?.length ?? 0)}{done.data.next && '+'} done in this hour and the one before.
      </p>
      {tasks.length > 0 && <Hours of={hourly(tasks.map((t) => Date.parse(t.updated_at)), at)} first={first} />}
    </section>
  )
}

/** barHeight is the height of the highest bar, in pixels. */
const barHeight = 46

/** marks is every how many hours the time is written below the bars. */
const marks = 6

function Hours({ of, first }: { of: number[]; first: number }) {
  const top = Math.max(1, ...of)
  const time = (i: number): string => new Date(first + i * hour).toISOString().slice(11, 16)
  return (
    <div>
      <ol class="hours" aria-label="Failed tasks by hour">
        {of.map((n, i) => {
          const said = `${time(i)} UTC: ${n} failed`
          return <li key={i} title={said}>{n > 0 && <span class="n" aria-hidden="true">{n > 99 ? '99+' : n}</span>}<span class="hourbar" style={{ height: `${(n / top) * barHeight}px` }} /><span class="hidden">{said}</span></li>
        })}
      </ol>
      <div class="hourmarks" aria-hidden="true">{of.map((_, i) => i).filter((i) => i % marks === 0).map((i) => <span key={i}>{time(i)}</span>)}<span>now, UTC</span></div>
    </div>
  )
}
