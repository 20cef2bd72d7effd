import type { PolicyRule, PolicyView } from '../api.ts'
import { commands } from '../commands.ts'
import { plural } from '../format.ts'
import { Command, Copy } from '../ui/copy.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useGet, useTitle } from '../ui/use.ts'
import { Verdict } from '../ui/verdict.tsx'
import { Backtest } from './backtest.tsx'
import { Tester } from './tester.tsx'

/** PolicyPage shows the policy in effect, says what would happen to a call, and what another policy would have done. */
export function PolicyPage() {
  useTitle('Policy')
  const read = useGet<PolicyView>('/policy')
  const policy = read.data
  return (
    <div class="scroll">
      <h1>Policy</h1>
      <p class="quiet">Which calls of tools run, which need an approval, and which are refused. Nothing on this page has an effect.</p>
      <Problem of={read.problem} />
      {!policy && !read.problem && <Loading />}
      {policy && <InEffect of={policy} />}
      {policy && <Tester tools={policy.tools ?? []} />}
      {policy && <Backtest text={policy.text ?? ''} />}
    </div>
  )
}

function InEffect({ of: p }: { of: PolicyView }) {
  const rules = p.rules ?? []
  return (
    <section class="stack" aria-labelledby="in-effect">
      <h2 id="in-effect">In effect <Command text={commands.policyShow(p.file ?? '')} /></h2>
      {p.read_only && <p class="note">The node is read-only: it runs no call that changes something.</p>}
      {!p.file && <Empty title="No policy file is in effect."><>The node itself asks for what is destructive or leaves the workspace. Write rules, try them below, then start the node with them: <code>orch serve --policy policy.yaml</code></></Empty>}
      {p.changed && <p class="note">The file has changed since the node read it. The node reads it when it starts.</p>}
      {p.file && (
        <p class="facts-line">
          <code><Txt>{p.file}</Txt></code><span>{plural(rules.length, 'rule')}, else <Verdict of={p.default} /></span>
          <span>SHA-256 <code title={p.sha256}>{p.sha256?.slice(0, 12)}</code> <Copy text={p.sha256 ?? ''} label="Copy the digest">Copy</Copy></span>
        </p>
      )}
      {rules.length > 0 && <Rules of={rules} />}
      {p.text && <details><summary>The text of the file</summary><Numbered text={p.text} /></details>}
    </section>
  )
}

function Rules({ of }: { of: PolicyRule[] }) {
  return (
    <div class="tablebox stack" tabIndex={0} role="region" aria-label="Rules">
      <table class="roomy">
        <thead><tr><th>Rule</th><th>Action</th><th>Matches</th><th>Reason</th><th class="num">Line</th></tr></thead>
        <tbody>
          {of.map((r) => (
            <tr key={r.name}>
              <th scope="row" data-label="Rule"><code>{r.name}</code></th><td data-label="Action"><Verdict of={r.action} /></td>
              <td data-label="Matches">{Object.entries(r.criteria ?? {}).map(([name, list]) => <div key={name}><span class="quiet">{name}</span> <code><Txt>{list.join(', ')}</Txt></code></div>)}</td>
              <td data-label="Reason"><Txt>{r.reason}</Txt></td><td class="num" data-label="Line">{r.line}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Numbered shows a text with the numbers of its lines. */
function Numbered({ text }: { text: string }) {
  const lines = text.replace(/\n$/, '').split('\n')
  return <pre class="numbered" tabIndex={0} role="region" aria-label="The policy file">{lines.map((line, i) => <span key={i}><Txt>{line + '\n'}</Txt></span>)}</pre>
}
