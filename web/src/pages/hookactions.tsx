import { useState } from 'preact/hooks'
import type { HookView, TestHookReply } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { decides } from '../node.ts'
import { href } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Fields } from '../ui/json.tsx'
import { Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'
import { at } from '../webhooks.ts'
import { Result } from './hook.tsx'
import { DeleteButton, PauseButton, RotateButton } from './webhookactions.tsx'

/** HookActions tries, pauses, rotates and deletes a hook. */
export function HookActions({ of: h, onChange }: { of: HookView; onChange: () => void }) {
  const [trying, setTrying] = useState(false)
  if (!decides.value) return null
  const self = at('hook', h.name)
  return (
    <div class="actions" role="group" aria-label="Actions">
      <span class="pair"><button type="button" class="primary" onClick={() => setTrying(true)}>Try a delivery…</button><Command text={commands.hookTest(h.name, '{}', h.definition.provider === 'github' ? 'push' : '')} /></span>
      <PauseButton at={self} paused={h.paused !== undefined} about="It then takes nothing: deliveries are answered with 503, so that senders that repeat them come again." onChange={onChange} />
      <RotateButton at={self} provider={h.definition.provider} both="Both are valid for a while, so that the sender can be changed in between." onChange={onChange} />
      <DeleteButton at={self} onChange={onChange}>Its definition, its secret and the list of its deliveries are lost, and senders get 401. Its tasks stay.</DeleteButton>
      {trying && <Try of={h} onClose={() => setTrying(false)} />}
    </div>
  )
}

/** Try shows what a delivery with a body would do. The node signs it, and does nothing. */
function Try({ of: h, onClose }: { of: HookView; onClose: () => void }) {
  const byHeader = h.definition.provider === 'github'
  const [body, setBody] = useState('{}')
  const [event, setEvent] = useState(byHeader ? 'push' : '')
  const [found, setFound] = useState<TestHookReply>()
  const action = useAction()
  const ask = (e: Event) => {
    e.preventDefault()
    setFound(undefined)
    void action.run(async () => setFound(await post<TestHookReply>(`${at('hook', h.name).path}/test`, { body, headers: event ? { 'X-GitHub-Event': event } : {} })))
  }
  return (
    <Dialog title={`Try a delivery to ${h.name}`} onClose={onClose} wide>
      <p class="quiet">The node signs the body with the secret of the hook, and says what it would do. Nothing is done.</p>
      <form class="form" onSubmit={ask}>
        {byHeader && <div class="field"><label for="try-event">Event</label><input id="try-event" value={event} autocomplete="off" placeholder="push" onInput={(e) => setEvent(e.currentTarget.value.trim())} /></div>}
        <div class="field"><label for="try-body">Body, as the sender shows it</label><textarea id="try-body" class="code" rows={6} spellcheck={false} value={body} onInput={(e) => setBody(e.currentTarget.value)} /></div>
        <div class="actions"><span class="pair"><button class="primary" disabled={action.busy}>What would happen?</button><Command text={commands.hookTest(h.name, body, event)} /></span></div>
      </form>
      <div role="status" class="stack">{found && <Foreseen of={found} />}</div>
      <Problem of={action.problem} />
    </Dialog>
  )
}

function Foreseen({ of: r }: { of: TestHookReply }) {
  return (
    <div class="stack">
      <p><Result of={r.result} />{r.reason && <>: <Txt>{r.reason}</Txt></>}</p>
      {r.result === 'duplicate' && r.task && <p>The task is there already: <a href={href(`/tasks/${r.task}`)}><code>{r.task}</code></a></p>}
      {r.signal && <p>It would signal <code><Txt>{r.signal.task}</Txt></code> with <Txt>{r.signal.name}</Txt>.</p>}
      {r.inputs !== undefined && <Fields value={r.inputs} label="inputs" />}
      {r.signal?.data !== undefined && <Fields value={r.signal.data} label="data" />}
    </div>
  )
}
