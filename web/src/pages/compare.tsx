import { useState } from 'preact/hooks'
import type { DiffEntry, DiffReply, Json } from '../api.ts'
import { lackOf } from '../compare.ts'
import { commands } from '../commands.ts'
import { plural, words } from '../format.ts'
import { pretty } from '../json.ts'
import { href, query, setQuery } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Pick } from './comparepick.tsx'

/** ComparePage shows what differs between two tasks: plan, inputs, steps, outputs, durations. */
export function ComparePage() {
  useTitle('Compare')
  const [a, b] = [query.value.get('a') ?? '', query.value.get('b') ?? '']
  const diff = useGet<DiffReply>(a && b ? '/diff' : '', { a, b })
  return (
    <div class="scroll">
      <h1>Compare two tasks</h1>
      <Choose key={a + b} a={a} b={b} />
      <Problem of={diff.problem} />
      {a && b && !diff.data && !diff.problem && <Loading />}
      {diff.data && <p class="quiet">{plural(diff.data.different, 'step')} of both differ, {diff.data.same} {diff.data.same === 1 ? 'does' : 'do'} not.{diff.data.omitted ? ` ${plural(diff.data.omitted, 'difference')} left out.` : ''}</p>}
      {diff.data && <Entries of={diff.data.entries ?? []} a={a} b={b} />}
    </div>
  )
}

function Choose({ a, b }: { a: string; b: string }) {
  const [one, setOne] = useState(a)
  const [two, setTwo] = useState(b)
  const choose = (a: string, b: string) => (a && b ? setQuery({ a, b }) : (setOne(a), setTwo(b)))
  return (
    <form class="row top" onSubmit={(e) => { e.preventDefault(); setQuery({ a: one.trim(), b: two.trim() }) }}>
      <div class="side-of">
        <div class="field"><label for="compare-a">Task A</label><input id="compare-a" class="code" required value={one} placeholder="TASK_…" onInput={(e) => setOne(e.currentTarget.value)} /></div>
        <Pick id="pick-a" other={two.trim()} onPick={(id) => choose(id, two.trim())} />
      </div>
      <div class="side-of">
        <div class="field"><label for="compare-b">Task B</label><input id="compare-b" class="code" required value={two} placeholder="TASK_…" onInput={(e) => setTwo(e.currentTarget.value)} /></div>
        <Pick id="pick-b" other={one.trim()} onPick={(id) => choose(one.trim(), id)} />
      </div>
      <span class="pair"><button class="primary">Compare</button>{one && two && <Command text={commands.diff(one, two)} />}</span>
    </form>
  )
}

function Entries({ of, a, b }: { of: DiffEntry[]; a: string; b: string }) {
  if (of.length === 0) return <Empty title="The two tasks do not differ." />
  const parts = [...new Set(of.map((e) => e.part))]
  return (
    <>
      {parts.map((part) => (
        <section key={part}>
          <h2>{words(part)}</h2>
          <div class="tablebox stack" tabIndex={0} role="region" aria-label={`Differences of ${part}`}>
            <table class="diff">
              <thead><tr><th>Where</th><th><a href={href(`/tasks/${a}`)}>A</a></th><th><a href={href(`/tasks/${b}`)}>B</a></th></tr></thead>
              <tbody>{of.filter((e) => e.part === part).map((e) => <tr key={e.path}><th scope="row"><code><Txt>{e.path}</Txt></code></th><Side value={e.a} mark="−" lack={lackOf(of, e, 'a')} /><Side value={e.b} mark="+" lack={lackOf(of, e, 'b')} /></tr>)}</tbody>
            </table>
          </div>
        </section>
      ))}
    </>
  )
}

function Side({ value, mark, lack }: { value: Json | undefined; mark: string; lack: string }) {
  if (value === undefined) return <td class="quiet" data-label={mark === '+' ? 'B' : 'A'}><Txt>{lack}</Txt></td>
  return <td class={mark === '+' ? 'added' : 'removed'} data-label={mark === '+' ? 'B' : 'A'}><pre><Txt>{`${mark} ${typeof value === 'string' ? value : pretty(value)}`}</Txt></pre></td>
}
