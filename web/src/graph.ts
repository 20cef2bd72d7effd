// Reads the steps of a plan and places them in columns, each right of all that it needs.
import type { Json } from './api.ts'
import { pretty, record, text, texts } from './json.ts'

/** Node is a step of a plan, or a lane: the place where an edge passes a column. */
export interface Node { id: string; kind: string; needs: string[]; column: number; row: number; lane?: boolean }

/** mostNodes is the size up to which a graph is readable. */
export const mostNodes = 150

const kinds = ['tool', 'set', 'for_each', 'matrix', 'switch', 'wait', 'approve', 'run', 'agent']
const reference = /steps\.([A-Za-z0-9_-]+)/g

/** nodes returns the steps of a plan with their needs, also those that only an expression shows. */
export function nodes(plan: Json): Node[] {
  const steps = record(plan)?.['steps']
  if (!Array.isArray(steps)) return []
  const all = steps.map((s) => record(s)).filter((s) => s !== undefined)
  const ids = new Set(all.map((s) => text(s['id'])))
  return all.map((s) => ({ id: text(s['id']), kind: kinds.find((k) => k in s) ?? '', needs: needs(s, ids), column: 0, row: 0 }))
}

function needs(step: Record<string, Json>, ids: Set<string>): string[] {
  const named = texts(step['needs'])
  const referred = [...pretty(step).matchAll(reference)].map((m) => m[1] as string)
  return [...new Set([...named, ...referred])].filter((n) => ids.has(n) && n !== step['id'])
}

/** place sets column and row of every node: the column by the longest path to it, the row by the rows of its needs. It adds lanes. */
export function place(steps: Node[]): Node[] {
  const known = new Map(steps.map((n) => [n.id, n]))
  for (let round = 0; round < steps.length; round++) if (!push(steps, known)) break
  const all = withLanes(steps, known)
  const byID = new Map(all.map((n) => [n.id, n]))
  const columns = groups(all)
  for (const [, column] of [...columns].sort((a, b) => a[0] - b[0])) {
    column.sort((a, b) => middle(a, byID) - middle(b, byID)).forEach((n, i) => { n.row = i })
  }
  return all
}

function push(all: Node[], byID: Map<string, Node>): boolean {
  let moved = false
  for (const n of all) {
    const least = Math.max(0, ...n.needs.map((id) => (byID.get(id)?.column ?? -1) + 1))
    if (least > n.column && least < all.length) [n.column, moved] = [least, true]
  }
  return moved
}

/** mostLanes bounds the lanes. With more, edges run behind the steps that they pass. */
const mostLanes = 300

/** withLanes adds a lane for each column that an edge passes, so that no edge runs behind a step. Edges from one step share theirs. */
function withLanes(steps: Node[], byID: Map<string, Node>): Node[] {
  const lanes = new Map<string, Node>()
  const through = (from: Node, to: Node): string => {
    let last = from.id
    for (let column = from.column + 1; column < to.column; column++) {
      const id = `${from.id} past ${column}`
      if (!lanes.has(id)) lanes.set(id, { id, kind: '', needs: [last], column, row: 0, lane: true })
      last = id
    }
    return last
  }
  const routed = steps.map((n) => ({ ...n, needs: n.needs.map((id) => through(byID.get(id) as Node, n)) }))
  return lanes.size > mostLanes ? steps : [...routed, ...lanes.values()]
}

function groups(all: Node[]): Map<number, Node[]> {
  const out = new Map<number, Node[]>()
  for (const n of all) out.set(n.column, [...(out.get(n.column) ?? []), n])
  return out
}

const middle = (n: Node, byID: Map<string, Node>): number =>
  n.needs.length ? n.needs.reduce((sum, id) => sum + (byID.get(id)?.row ?? 0), 0) / n.needs.length : 0

/** size is that of a node, in pixels. */
export const size = { width: 168, height: 44 }

/** Place is where a node is drawn. */
export interface Place { node: Node; x: number; y: number }

/** Drawing is a graph in pixels; its edges are paths of SVG. */
export interface Drawing { width: number; height: number; places: Place[]; edges: string[] }

/** Direction is how far columns and rows lie apart, and which way an edge leaves its node. */
interface Direction { of: (n: Node) => { x: number; y: number }; edge: (a: Place, b: Place) => string; lane: (p: Place) => string }

const margin = 12

const across: Direction = {
  of: (n) => ({ x: margin + n.column * (size.width + 56), y: margin + n.row * (size.height + 14) }),
  edge: (a, b) => {
    const [x1, y1, x2, y2] = [a.x + size.width, a.y + size.height / 2, b.x, b.y + size.height / 2]
    const bend = Math.max(24, (x2 - x1) / 2)
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
  },
  lane: (p) => `M${p.x} ${p.y + size.height / 2}h${size.width}`,
}

const down: Direction = {
  of: (n) => ({ x: margin + n.row * (size.width + 14), y: margin + n.column * (size.height + 36) }),
  edge: (a, b) => {
    const [x1, y1, x2, y2] = [a.x + size.width / 2, a.y + size.height, b.x + size.width / 2, b.y]
    const bend = Math.max(18, (y2 - y1) / 2)
    return `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`
  },
  lane: (p) => `M${p.x + size.width / 2} ${p.y}v${size.height}`,
}

/** drawn draws placed nodes in a box: across if they fit, else in the direction that is less wide. */
export function drawn(all: Node[], width: number): Drawing {
  const [a, b] = [draw(all, across), draw(all, down)]
  return a.width <= width || a.width <= b.width ? a : b
}

function draw(all: Node[], direction: Direction): Drawing {
  const places = all.map((node) => ({ node, ...direction.of(node) }))
  const byID = new Map(places.map((p) => [p.node.id, p]))
  return {
    places: places.filter((p) => !p.node.lane), width: Math.max(...places.map((p) => p.x)) + size.width + margin, height: Math.max(...places.map((p) => p.y)) + size.height + margin,
    edges: places.flatMap((p) => [...p.node.needs.map((id) => direction.edge(byID.get(id) as Place, p)), ...(p.node.lane ? [direction.lane(p)] : [])]),
  }
}
