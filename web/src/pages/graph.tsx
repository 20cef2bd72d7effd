import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { terminal, type Task } from '../fold.ts'
import { drawn, mostNodes, nodes, place, size, type Drawing, type Place } from '../graph.ts'
import { words } from '../format.ts'
import { Empty } from '../ui/notice.tsx'
import { Line } from '../ui/text.tsx'

interface GraphProps { task: Task; selected: string; onSelect: (step: string) => void }

/** Graph draws the steps of the plan, each after what it needs: across, or downward where that does not fit. */
export function Graph({ task, selected, onSelect }: GraphProps) {
  const all = useMemo(() => nodes(task.plan), [task.plan])
  const placed = useMemo(() => (all.length > mostNodes ? [] : place(all)), [all])
  if (all.length === 0) return <Empty title="There is no graph.">The plan is too large to be part of the history, or has no steps.</Empty>
  if (all.length > mostNodes) return <Empty title={`The plan has ${all.length} steps.`}>A graph of more than {mostNodes} is not readable; the timeline shows all of them.</Empty>
  return <Picture of={(width) => drawn(placed, width)} task={task} selected={selected} onSelect={onSelect} />
}

function Picture({ of, task, selected, onSelect }: GraphProps & { of: (width: number) => Drawing }) {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => setWidth(e?.contentRect.width ?? 0))
    if (box.current) watch.observe(box.current)
    return () => watch.disconnect()
  }, [])
  useEffect(() => box.current?.querySelector('[aria-pressed=true]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [selected, width])
  const d = of(width)
  return (
    <div ref={box} class="graph" role="region" aria-label="Graph of the steps" tabIndex={0}>
      <div style={{ width: `${d.width}px`, height: `${d.height}px` }}>
        <svg width={d.width} height={d.height} aria-hidden="true">{d.edges.map((e) => <path key={e} d={e} />)}</svg>
        {d.places.map((p) => <NodeView key={p.node.id} at={p} state={task.steps.get(p.node.id)?.state ?? 'pending'} over={terminal(task.state)} selected={p.node.id === selected} onSelect={onSelect} />)}
      </div>
    </div>
  )
}

const looks: Record<string, string> = {
  pending: 'wait', ready: 'wait', running: 'run', succeeded: 'good', failed: 'bad', skipped: 'off', parked: 'person', in_doubt: 'block', cancelled: 'off',
}

/** wordFor is the word for the state of a step; what has not begun in a task that is over never will. */
const wordFor = (state: string, over: boolean): string => (over && state === 'pending' ? 'Not run' : words(state))

interface NodeProps { at: Place; state: string; over: boolean; selected: boolean; onSelect: (step: string) => void }

function NodeView({ at, state, over, selected, onSelect }: NodeProps) {
  const n = at.node
  return (
    <button
      type="button" class={`node ${looks[state]}`} aria-pressed={selected} onClick={() => onSelect(selected ? '' : n.id)}
      style={{ left: `${at.x}px`, top: `${at.y}px`, width: `${size.width}px`, height: `${size.height}px` }}
    >
      <span class="cut strong"><Line>{n.id}</Line></span>
      <span class={`state ${looks[state]}`}>{wordFor(state, over)}{n.kind && ` · ${n.kind.replace('_', ' ')}`}</span>
    </button>
  )
}
