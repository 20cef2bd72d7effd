import { Txt } from './text.tsx'

const marks: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'place' }

/** Diff shows a unified diff, with the marks of its lines as colours and as text. */
export function Diff({ of, label }: { of: string; label: string }) {
  const lines = of.replace(/\n$/, '').split('\n').filter((line) => !/^(---|\+\+\+) /.test(line))
  return <pre class="lines" tabIndex={0} role="region" aria-label={label}>{lines.map((line, i) => <div key={i} class={marks[line.charAt(0)]}><Txt>{line || ' '}</Txt></div>)}</pre>
}
