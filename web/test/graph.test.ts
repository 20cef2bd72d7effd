import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawn, nodes, place } from '../src/graph.ts'

const plan = { steps: [{ id: 'a', tool: 'X' }, { id: 'b', tool: 'X', needs: ['a'] }, { id: 'c', set: { n: '${{ steps.a.output }}' } }, { id: 'd', tool: 'X', needs: ['b', 'c'] }] }

test('a graph is drawn across where it fits, else downward', () => {
  const all = place(nodes(plan))
  const at = (width: number) => Object.fromEntries(drawn(all, width).places.map((p) => [p.node.id, p]))
  const [wide, narrow] = [at(1000), at(400)]
  assert.ok(wide['a']!.x < wide['b']!.x && wide['b']!.x < wide['d']!.x && wide['b']!.y < wide['c']!.y)
  assert.ok(narrow['a']!.y < narrow['b']!.y && narrow['b']!.y < narrow['d']!.y && narrow['b']!.x < narrow['c']!.x)
  assert.ok(drawn(all, 400).width <= 400)
  assert.equal(drawn(all, 400).edges.length, 4)
})

test('an edge that passes a column has a lane there', () => {
  const steps = [{ id: 'a', tool: 'X' }, { id: 'b', tool: 'X', needs: ['a'] }, { id: 'c', tool: 'X', needs: ['b', 'a'] }]
  const all = place(nodes({ steps }))
  const lane = all.find((n) => n.lane)
  assert.deepEqual([lane?.column, lane?.row !== all.find((n) => n.id === 'b')?.row], [1, true])
  assert.deepEqual(drawn(all, 1000).places.map((p) => p.node.id), ['a', 'b', 'c'])
})
