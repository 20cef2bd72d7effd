import type { Firing, Outcome, ScheduleView, SchedulesReply } from '../api.ts'
import { commands } from '../commands.ts'
import { count, duration, moment, plural, words } from '../format.ts'
import { now } from '../node.ts'
import { href } from '../route.ts'
import { whenText } from '../schedules.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { State } from '../ui/state.tsx'
import { Txt } from '../ui/text.tsx'
import { Past } from '../ui/time.tsx'
import { live, useGet, useTitle } from '../ui/use.ts'
import { ScheduleActions } from './scheduleactions.tsx'

/** SchedulesPage shows the schedules of the node, and one of them. */
export function SchedulesPage({ name }: { name: string }) {
  useTitle(name || 'Schedules')
  const list = useGet<SchedulesReply>('/schedules', { upcoming: 3 }, live)
  const all = list.data?.schedules ?? []
  const chosen = all.find((s) => s.name === name)
  return (
    <div class="scroll">
      <h1>Schedules</h1>
      <p class="quiet">What starts tasks at certain times.</p>
      <Problem of={list.problem} />
      {!list.data && !list.problem && <Loading />}
      {list.data && all.length === 0 && <Empty title="There is no schedule."><>Start a plan every night: <code>{commands.scheduleCreate()}</code> <Command text={commands.scheduleCreate()} /></></Empty>}
      {all.length > 0 && <Schedules of={all} at={name} />}
      {list.data && name && !chosen && <Empty title="There is no such schedule."><a href={href('/schedules')}>All schedules</a></Empty>}
      {chosen && <Schedule key={name} of={chosen} onChange={list.reload} />}
    </div>
  )
}

function Schedules({ of, at }: { of: ScheduleView[]; at: string }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Schedules">
      <table class="roomy">
        <thead><tr><th>Schedule</th><th>When</th><th>Next</th><th class="num">Running</th><th>Last</th></tr></thead>
        <tbody>
          {of.map((s) => (
            <tr key={s.name}>
              <th scope="row" data-label="Schedule"><a href={href(`/schedules/${s.name}`)} aria-current={s.name === at ? 'true' : undefined}>{s.name}</a>{s.note && <div class="quiet small"><Txt>{s.note}</Txt></div>}</th>
              <td data-label="When"><Txt>{whenText(s.spec)}</Txt></td>
              <td data-label="Next"><Next of={s} /></td>
              <td class="num" data-label="Running">{count(s.running.length)}{s.buffered.length > 0 && <div class="small">{count(s.buffered.length)} waiting</div>}</td>
              <td data-label="Last"><Last of={s} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Next({ of: s }: { of: ScheduleView }) {
  if (s.paused) return <span class="state off">Paused</span>
  if (!s.due) return <>never</>
  return <time dateTime={s.due} title={moment(s.due)}>{until(s.due)}</time>
}

/** until says how far away a time in the future is. */
function until(at: string): string {
  const left = Date.parse(at) - now.value
  return left > 0 ? `in ${duration(left)}` : 'now'
}

function Last({ of: s }: { of: ScheduleView }) {
  const last = s.outcomes[0]
  if (!last) return <>–</>
  return (
    <>
      <Result of={last} /> <span class="quiet small"><Past at={last.since} /></span>
      {s.failures ? <div class="small">{plural(s.failures, 'task')} in a row not done</div> : null}
    </>
  )
}

const looks: Record<string, string> = { skipped: 'off', missed: 'bad', failed: 'bad', started: 'run' }

/** Result shows what became of a firing: how its task has ended, or why there is none. */
function Result({ of: o }: { of: Outcome }) {
  if (o.end) return <State of={o.end} />
  return <span class={`state ${looks[o.result] ?? 'wait'}`}>{words(o.result)}</span>
}

function Schedule({ of: s, onChange }: { of: ScheduleView; onChange: () => void }) {
  return (
    <section class="stack" aria-labelledby="schedule">
      <h2 id="schedule" tabIndex={-1}>{s.name}</h2>
      <p class="facts-line">
        <span><Txt>{whenText(s.spec)}</Txt></span>
        <span>overlap {words(s.spec.overlap || 'skip').toLowerCase()}</span>
        {s.spec.jitter && s.spec.jitter !== '0s' && <span>jitter <Txt>{s.spec.jitter}</Txt></span>}
        <span>defined by <Txt>{s.requestor}</Txt>, <Past at={s.updated_at} /></span>
        <a href={href('/tasks', { label: `schedule=${s.name}` })}>its tasks</a>
      </p>
      {s.paused && <p><span class="state off">Paused</span> by <Txt>{s.paused.by}</Txt>, <Past at={s.paused.at} />{s.paused.note && <>: <Txt>{s.paused.note}</Txt></>}</p>}
      {s.next.length > 0 && <p>Next: {s.next.map((at, i) => <span key={at}>{i > 0 && ', '}<time dateTime={at} title={until(at)}>{moment(at)}</time></span>)}</p>}
      <ScheduleActions of={s} onChange={onChange} />
      <Firings of={s} />
    </section>
  )
}

function Firings({ of: s }: { of: ScheduleView }) {
  if (s.outcomes.length + s.buffered.length === 0) return <p class="quiet">It has started no task yet.</p>
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Last firings">
      <table class="roomy">
        <thead><tr><th>For</th><th>Result</th><th>Task</th><th>Why</th></tr></thead>
        <tbody>
          {s.buffered.slice(0, 3).map((f) => <tr key={`b${f.at}`}><th scope="row" data-label="For">{moment(f.at)}</th><td data-label="Result"><span class="state wait">Waiting</span></td><td data-label="Task">–</td><td data-label="Why">{origin(f)}</td></tr>)}
          {s.outcomes.map((o) => (
            <tr key={`${o.at}${o.origin ?? ''}${o.result}`}>
              <th scope="row" data-label="For">{moment(o.at)}{(o.count ?? 1) > 1 && <div class="quiet small">{plural(o.count ?? 1, 'time')}</div>}</th>
              <td data-label="Result"><Result of={o} /></td>
              <td data-label="Task">{o.task ? <a href={href(`/tasks/${o.task}`)}><code>{o.task}</code></a> : '–'}</td>
              <td data-label="Why"><Txt>{[origin(o), o.reason].filter(Boolean).join(', ')}</Txt></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const origin = (f: Firing): string => (f.origin ? `${f.origin} by ${f.by ?? 'somebody'}` : '')
