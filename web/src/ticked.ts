// Which rows of a list are chosen; without a document.

/** ticked turns the choice of a row; with from, that of all rows from that one on, in the same direction. */
export function ticked(chosen: ReadonlySet<string>, rows: { id: string }[], id: string, from = ''): Set<string> {
  const next = new Set(chosen)
  const on = !next.has(id)
  const ends = [rows.findIndex((r) => r.id === id), rows.findIndex((r) => r.id === from)].sort((a, b) => a - b)
  const range = (ends[0] ?? -1) < 0 ? [{ id }] : rows.slice(ends[0], (ends[1] ?? 0) + 1)
  for (const r of range) if (on) next.add(r.id); else next.delete(r.id)
  return next
}
