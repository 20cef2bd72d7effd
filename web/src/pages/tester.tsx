import { useEffect, useState } from 'preact/hooks'
import type { ExplainedCall, Json } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { record } from '../json.ts'
import { status } from '../node.ts'
import { Command } from '../ui/copy.tsx'
import { Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'
import { Verdict } from '../ui/verdict.tsx'

/** Tester says what would happen to a call that nobody makes. */
export function Tester({ tools }: { tools: string[] }) {
  const [tool, setTool] = useState('')
  const [args, setArgs] = useState('{}')
  const [agent, setAgent] = useState('')
  const [task, setTask] = useState('')
  const [found, setFound] = useState<ExplainedCall>()
  const action = useAction()
  useEffect(() => setFound(undefined), [tool, args, agent, task])
  const given = parsed(args)
  const by = agent.trim() || status.value?.identity || ''
  const ask = (e: Event) => {
    e.preventDefault()
    void action.run(async () => setFound(await post<ExplainedCall>('/policy/explain', { tool: tool.trim(), args: given, agent: by, ...(task.trim() ? { task: task.trim() } : {}) })))
  }
  return (
    <section class="stack" aria-labelledby="tester">
      <h2 id="tester">Imagine a call</h2>
      <p class="quiet">What would happen to it, and why. It is not made.</p>
      <form class="form" onSubmit={ask}>
        <div class="row even">
          <div class="field"><label for="try-tool">Tool</label><input id="try-tool" class="code" required maxLength={256} list="try-tools" autocomplete="off" value={tool} placeholder="FILE_WRITE" onInput={(e) => setTool(e.currentTarget.value)} />
            <datalist id="try-tools">{tools.map((t) => <option key={t} value={t} />)}</datalist></div>
          <div class="field"><label for="try-agent">By whom</label><input id="try-agent" class="code" maxLength={256} value={agent} placeholder={status.value?.identity || 'user:ada'} onInput={(e) => setAgent(e.currentTarget.value)} /></div>
          <div class="field"><label for="try-task">In the workspace of</label><input id="try-task" class="code" value={task} placeholder="a task of its own" onInput={(e) => setTask(e.currentTarget.value)} /></div>
        </div>
        <div class={`field ${given ? '' : 'wrong'}`}>
          <label for="try-args">Arguments, as a JSON object</label>
          <textarea id="try-args" class="code" rows={3} spellcheck={false} aria-invalid={!given} aria-describedby={given ? undefined : 'try-args-wrong'} value={args} onInput={(e) => setArgs(e.currentTarget.value)} />
          {!given && <p id="try-args-wrong" class="small">This is not a JSON object.</p>}
        </div>
        <div class="actions"><span class="pair"><button class="primary" disabled={action.busy || !given}>What would happen?</button>{tool && given && <Command text={commands.policyExplain(tool.trim(), given, by, task.trim())} />}</span></div>
      </form>
      <div role="status" class="stack">{found && <Answer of={found} by={by} />}</div>
      <Problem of={action.problem} />
    </section>
  )
}

/** parsed returns a JSON object, or undefined for any other text. */
function parsed(text: string): Record<string, Json> | undefined {
  try {
    return record(JSON.parse(text || '{}') as Json)
  } catch {
    return undefined
  }
}

const outcomes: Record<string, string> = { allow: 'The call would run.', ask: 'The call would need an approval first.', deny: 'The call would be refused.' }

function Answer({ of: e, by }: { of: ExplainedCall; by: string }) {
  const { approval, refused } = e
  const matches = e.matches ?? []
  return (
    <div class="card">
      <p class="strong"><Verdict of={e.action} /> {outcomes[e.action]}</p>
      <dl class="facts">
        <div><dt>Effect</dt><dd>{e.effect}</dd></div>
        <div><dt>By</dt><dd><code><Txt>{by || 'unknown'}</Txt></code></dd></div>
        <div><dt>Policy file</dt><dd><Verdict of={e.file.action} /> {e.file.rule && <>by <code>{e.file.rule}</code></>}{e.file.reason && <>: <Txt>{e.file.reason}</Txt></>}</dd></div>
        {refused && <div><dt>Refused</dt><dd><Txt>{refused.message}</Txt> <code>{refused.reason || refused.name}</code>{refused.hint && <p class="quiet"><Txt>{refused.hint}</Txt></p>}</dd></div>}
        {approval && <div><dt>Approval</dt><dd><Txt>{approval.reason}</Txt> <span class={`risk ${approval.risk}`}>{approval.risk} risk</span>{approval.instead && <p class="quiet">Instead: <Txt>{approval.instead}</Txt></p>}{approval.scopes && <p class="quiet">It would grant: <code><Txt>{approval.scopes.join(', ')}</Txt></code></p>}</dd></div>}
        <div><dt>Rules</dt><dd>{matches.length === 0 ? 'none matches' : <ul class="plainlist">{matches.map((m) => <li key={m.rule}><code>{m.rule}</code>, line {m.line} <Verdict of={m.action} />{m.unsure && <span class="quiet"> · it cannot be told before the call whether it matches</span>}</li>)}</ul>}</dd></div>
      </dl>
      {e.announces && <p class="quiet">The tool says what a call reaches when it runs. Here only its arguments are known, so more approvals may be needed.</p>}
    </div>
  )
}
