import type { Cause, ExplainReply } from '../api.ts'
import { reaching, runnable } from '../reach.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Txt } from '../ui/text.tsx'
import { Until } from '../ui/time.tsx'

/** Causes shows why a task does not move: the most important sentence large, the others below it. */
export function Causes({ of }: { of: ExplainReply }) {
  const next = of.causes?.find((c) => c.kind === 'continued')
  const [first, ...others] = (of.causes ?? []).filter((c) => c !== next)
  if (!first) return null
  return (
    <div class="causes">
      <p class="sentence"><One of={first} /></p>
      {next && <p class="note"><One of={next} /> {next.task && <a href={href('/compare', { a: of.id, b: next.task })}>Compare both</a>}</p>}
      {others.length > 0 && (
        <details><summary>{others.length} more {others.length === 1 ? 'cause' : 'causes'}</summary>
          <ul>{others.map((c, i) => <li key={i}><One of={c} /></li>)}</ul>
        </details>
      )}
    </div>
  )
}

function One({ of: c }: { of: Cause }) {
  return (
    <>
      <Txt>{c.sentence}</Txt>{c.until && <span class="quiet"> (<Until at={c.until} />)</span>}{' '}
      {c.approval && <a href={href(`/inbox/${c.approval}`)}>{c.next?.startsWith('orch resume') ? 'What to do' : 'Decide'}</a>}{' '}
      {c.task && <a href={href(`/tasks/${c.task}`)}>Open {c.kind === 'dependency' ? 'the dependency' : 'the task'}</a>}{' '}
      {c.next && runnable(c.next) && <Command text={reaching(c.next)} />}
    </>
  )
}
