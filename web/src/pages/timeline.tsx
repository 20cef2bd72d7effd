import { useMemo } from 'preact/hooks'
import type { Step, Task } from '../fold.ts'
import { duration, words } from '../format.ts'
import type { History } from '../history.ts'
import { barsAt, busyTimes, length, look, scale, took, type Bar, type Gap, type Scale } from '../timeline.ts'
import { narrow } from '../node.ts'
import { Line } from '../ui/text.tsx'
import { Virtual } from '../ui/virtual.tsx'

interface TimelineProps {
  history: History
  task: Task
  /** rev is the revision to show, until the time up to which bars that last are drawn. */
  rev: number
  until: number
  collapse: boolean
  selected: string
  onSelect: (step: string) => void
}

/** TimelineView draws a row for each step, with a bar for everything that it did or waited for. */
export function TimelineView(p: TimelineProps) {
  const steps = [...p.task.steps.values()]
  const { history } = p
  const { from } = history.timeline
  const to = Math.max(p.until, history.timeline.to)
  const axis = useMemo(
    () => scale(from, to, p.collapse ? busyTimes(history.timeline.steps.values(), to) : [{ from, to }]),
    [history, history.rev, p.collapse, Math.floor(to / 1000)],
  )
  return (
    <div class="timeline">
      <Legend of={history.timeline.steps.values()} rev={p.rev} idle={axis.gaps} />
      <div class="chart">
        <Axis of={axis} from={from} to={to} />
        <Virtual
          items={steps} height={narrow.value ? 46 : 30} label="Steps" id={(s) => s.key} cursor={steps.findIndex((s) => s.key === p.selected)}
          onCursor={(i) => p.onSelect(steps[i]?.key ?? '')}
          row={(s) => <StepRow step={s} bars={barsAt(history.timeline.steps.get(s.key) ?? [], p.rev)} axis={axis} until={p.until} selected={s.key === p.selected} onSelect={p.onSelect} />}
        />
        <Gaps of={axis} />
      </div>
    </div>
  )
}

interface StepRowProps { step: Step; bars: Bar[]; axis: Scale; until: number; selected: boolean; onSelect: (step: string) => void }

function StepRow({ step, bars, axis, until, selected, onSelect }: StepRowProps) {
  const ran = bars.filter((b) => b.activity === 'running')
  const time = took(bars, until)
  const depth = (step.key.match(/[.[]/g) ?? []).length
  return (
    <>
      <button type="button" class={`stepname state ${looks[step.state]}`} aria-pressed={selected} onClick={() => onSelect(selected ? '' : step.key)} title={step.key} style={{ paddingLeft: `${Math.min(depth, 3) * 10 + 6}px` }}>
        <span class="cut"><Line>{step.key}</Line></span>
        <span class="hidden">, {words(step.state)}, {ran.length} {ran.length === 1 ? 'attempt' : 'attempts'}</span>
      </button>
      <span class="track" aria-hidden="true">{thin(bars, axis, until).map((b, i) => <BarView key={i} bar={b} axis={axis} until={until} />)}</span>
      <span class="took" title="how long its newest attempt ran, without its time in the queue">{time === undefined ? '' : duration(time)}</span>
    </>
  )
}

const looks: Record<Step['state'], string> = {
  pending: 'wait', ready: 'wait', running: 'run', succeeded: 'good', failed: 'bad', skipped: 'off', parked: 'person', in_doubt: 'block', cancelled: 'off',
}

function BarView({ bar: b, axis, until }: { bar: Bar; axis: Scale; until: number }) {
  const to = Math.min(b.to, until)
  const left = axis.place(b.from)
  const said = `${look(b).words}${b.attempt > 0 ? `, attempt ${b.attempt}` : ''}: ${duration(length(b, until))}`
  return <i class={`bar ${look(b).class}`} title={said} style={{ left: `${left * 100}%`, width: `max(3px, ${(axis.place(to) - left) * 100}%)` }} />
}

/** thin drops bars that would be drawn over the previous one of the same kind, so that a step with thousands stays small. */
function thin(bars: Bar[], axis: Scale, until: number): Bar[] {
  if (bars.length < 60) return bars
  const out: Bar[] = []
  let end = -1
  for (const b of bars) {
    const to = axis.place(Math.min(b.to, until))
    if (to - end < 0.004 && out.at(-1)?.activity === b.activity) continue
    out.push(b)
    end = to
  }
  return out.slice(0, 400)
}

const marks = 5

/** Axis shows times since the start. */
function Axis({ of: axis, from, to }: { of: Scale; from: number; to: number }) {
  const ticks = Array.from({ length: marks }, (_, i) => ({ at: (i * 100) / marks, label: i ? `+${duration(find(axis, i / marks, from, to) - from)}` : '0' }))
  const told = ticks.filter((t, i) => t.label !== ticks[i - 1]?.label)
  return (
    <div class="axis" aria-hidden="true">
      <span class="track">
        {told.map((t) => <span key={t.at} class="tick" style={{ left: `${t.at}%` }}>{t.label}</span>)}
      </span>
    </div>
  )
}

/** Gaps marks the idle time over all rows. */
function Gaps({ of: axis }: { of: Scale }) {
  return (
    <div class="gaps" aria-hidden="true">
      {axis.gaps.map((g) => <i key={g.from} class="gap" style={{ left: `${axis.place(g.from) * 100}%`, width: `${(axis.place(g.to) - axis.place(g.from)) * 100}%` }} />)}
    </div>
  )
}

/** find returns the time that a place on the axis stands for. */
function find(axis: Scale, place: number, from: number, to: number): number {
  let [low, high] = [from, to]
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2
    if (axis.place(middle) < place) low = middle
    else high = middle
  }
  return low
}

/** Legend explains the bars that the task has at a revision. */
function Legend({ of, rev, idle }: { of: Iterable<Bar[]>; rev: number; idle: Gap[] }) {
  const seen = new Map<string, string>()
  for (const bars of of) for (const b of barsAt(bars, rev)) seen.set(look(b).class, look(b).words)
  return (
    <ul class="legend" aria-label="Legend">
      {[...seen].map(([name, words]) => <li key={name}><i class={`bar ${name}`} /> {words}</li>)}
      {idle.length > 0 && <li><i class="bar idle" /> {duration(idle.reduce((sum, g) => sum + g.to - g.from, 0))} idle, drawn short</li>}
    </ul>
  )
}
