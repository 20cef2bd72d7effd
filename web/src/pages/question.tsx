import { useState } from 'preact/hooks'
import type { Json, QuestionView } from '../api.ts'
import { Fault, post } from '../client.ts'
import { commands } from '../commands.ts'
import { formOf } from '../decisions.ts'
import { keepDraft } from '../drafts.ts'
import { moment, words } from '../format.ts'
import { record, text } from '../json.ts'
import { decides, role } from '../node.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { SchemaForm, useValues } from '../ui/form.tsx'
import { JsonView } from '../ui/json.tsx'
import { Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Expires, Waiting } from '../ui/time.tsx'
import { useAction } from '../ui/use.ts'

const kinds: Record<QuestionView['kind'], string> = {
  elicitation: 'Question of a call', sampling: 'Asks for an answer of a model', roots: 'Asks which folders are open',
}

/** QuestionCard shows a question of a running call with the form of its schema, and answers it. One that is closed says how it ended. */
export function QuestionCard({ of: q, onDone }: { of: QuestionView; onDone: () => void }) {
  const params = record(q.params)
  return (
    <article class="card" aria-labelledby={q.id}>
      <p class="kicker">{kinds[q.kind]}</p>
      <h2 id={q.id}><Txt>{text(params?.['message']) || q.key}</Txt></h2>
      <dl class="facts">
        <div><dt>Task</dt><dd><a href={href(`/tasks/${q.task}`)}><Txt>{q.task_name || q.task}</Txt></a> · step <code><Txt>{q.step}</Txt></code></dd></div>
        {q.tool && <div><dt>Tool</dt><dd><code><Txt>{q.tool}</Txt></code></dd></div>}
        {q.status === 'open' && <div><dt>Waiting</dt><dd><Waiting at={q.asked_at} />, <Expires at={q.expires_at} /></dd></div>}
      </dl>
      {q.kind !== 'elicitation' && <JsonView value={q.params} label="request" />}
      {q.status !== 'open' ? <p class="note"><Ended of={q} /></p> : decides.value ? <Answer of={q} schema={params?.['requestedSchema']} onDone={onDone} /> : <p class="note">Your role is {role.value}: you can read, not answer.</p>}
    </article>
  )
}

const actions: Record<string, string> = { accept: 'Answered', decline: 'Declined', cancel: 'Cancelled' }

/** Ended says by whom and when a question was answered, or why it was not. */
function Ended({ of: q }: { of: QuestionView }) {
  const how = q.answered_by ? actions[q.action ?? ''] ?? 'Answered' : words(q.status)
  return <>{how}{q.answered_by && <> by <Txt>{q.answered_by}</Txt></>}{q.closed_at && <>, {moment(q.closed_at)}</>}{q.reason && <>: <Txt>{q.reason}</Txt></>}</>
}

function Answer({ of: q, schema, onDone }: { of: QuestionView; schema: Json; onDone: () => void }) {
  const form = q.kind === 'elicitation'
  const draftName = formOf(q.id)
  const [values, setValues] = useValues(schema, draftName)
  const [raw, setRaw] = useState('')
  const action = useAction()
  const send = async (body: () => object) => {
    if (await action.run(async () => post(`/questions/${q.id}/answer`, body()))) {
      keepDraft(draftName, '')
      announce('Answered.')
      onDone()
    }
  }
  const submit = (e: Event) => {
    e.preventDefault()
    void send(() => ({ response: form ? { action: 'accept', content: values } : (JSON.parse(raw) as Json) }))
  }
  return (
    <form class="decide" onSubmit={submit}>
      {form
        ? <SchemaForm schema={schema} values={values} onChange={setValues} wrong={action.problem instanceof Fault ? action.problem.field : ''} />
        : <div class="field"><label for={q.id + '-raw'}>The result of the request, as JSON</label><textarea id={q.id + '-raw'} class="code" rows={4} required value={raw} onInput={(e) => setRaw(e.currentTarget.value)} /></div>}
      <Problem of={action.problem} />
      <div class="actions">
        <span class="pair"><button class="primary" disabled={action.busy}>Answer</button>{form && <Command text={commands.accept(q.id, values)} />}</span>
        <span class="pair"><button type="button" disabled={action.busy} onClick={() => void send(() => ({ declined: true }))}>Decline</button><Command text={commands.decline(q.id)} /></span>
      </div>
    </form>
  )
}
