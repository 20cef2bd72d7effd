import { useMemo, useState } from 'preact/hooks'
import { text } from '../json.ts'
import { clock, count, moment } from '../format.ts'
import { detail, kindOf, rowsUntil, type History, type Row } from '../history.ts'
import { narrow } from '../node.ts'
import { JsonView } from '../ui/json.tsx'
import { Empty } from '../ui/notice.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Virtual } from '../ui/virtual.tsx'

export interface EventsProps { history: History; version: number; rev: number }

/** Events lists every event of the history up to a revision, and the one that is selected in full. */
export function Events({ history, version, rev }: EventsProps) {
  const [words, setWords] = useState('')
  const [cursor, setCursor] = useState(-1)
  const rows = useMemo(() => {
    const until = history.rows.slice(0, rowsUntil(history.rows, rev))
    const w = words.toLowerCase()
    return w ? until.filter((r) => `${kindOf(r.event)} ${text(r.event.data['step'])} ${detail(r.event)}`.toLowerCase().includes(w)) : until
  }, [history, version, rev, words])
  const open = rows[cursor]
  return (
    <div class="events">
      <div class="row">
        <div class="field"><label for="filter-events">Filter events</label><input id="filter-events" value={words} placeholder="step.failed, build, …" onInput={(e) => { setWords(e.currentTarget.value); setCursor(-1) }} /></div>
        <p class="quiet small sum" role="status">{count(rows.length)} {rows.length === 1 ? 'event' : 'events'}</p>
      </div>
      {rows.length === 0 ? <Empty title="No event matches." /> : (
        <Virtual items={rows} height={narrow.value ? 48 : 28} label="Events" class="table log" cursor={cursor} onCursor={setCursor} row={(r, i) => <EventRow of={r} selected={i === cursor} onOpen={() => setCursor(i === cursor ? -1 : i)} />} />
      )}
      {open && (
        <section class="eventdetail" aria-label="Selected event">
          <h3>{kindOf(open.event)} <span class="quiet">revision {open.rev}, {moment(open.at)}, by <Txt>{open.actor || 'node'}</Txt></span></h3>
          <JsonView value={open.event.data} label="data of the event" />
        </section>
      )}
    </div>
  )
}

function EventRow({ of: r, selected, onOpen }: { of: Row; selected: boolean; onOpen: () => void }) {
  return (
    <>
      <span class="num">{r.rev}</span>
      <time>{clock(r.at)}</time>
      <button type="button" class="plain kind" aria-pressed={selected} onClick={onOpen}>{kindOf(r.event)}</button>
      <span class="cut"><b><Line>{text(r.event.data['step'])}</Line></b> <Line>{detail(r.event)}</Line></span>
    </>
  )
}

