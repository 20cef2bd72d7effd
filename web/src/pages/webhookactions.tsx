import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { go, href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command, Copy } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { mayPass, useAction } from '../ui/use.ts'
import { making, newSecret, type At } from '../webhooks.ts'

interface DialogProps { at: At; onClose: () => void; onChange: () => void }

/** PauseButton pauses a hook or a destination with a reason, or resumes it. about says what a pause means. */
export function PauseButton({ at, paused, about, onChange }: { at: At; paused: boolean; about: string; onChange: () => void }) {
  const action = useAction()
  const [open, setOpen] = useState(false)
  const resume = async () => {
    if (action.busy) return
    if (await action.run(() => post(`${at.path}/resume`))) announce('Resumed.')
    onChange()
  }
  return (
    <>
      <span class="pair">
        <button type="button" aria-disabled={action.busy} onClick={() => (paused ? void resume() : setOpen(true))}>{paused ? 'Resume' : 'Pause…'}</button>
        <Command text={paused ? commands.webhook(at.kind, 'resume', at.name) : commands.webhookPause(at.kind, at.name, '')} />
      </span>
      <Problem of={action.problem} />
      {open && <Pause at={at} about={about} onClose={() => setOpen(false)} onChange={onChange} />}
    </>
  )
}

function Pause({ at, about, onClose, onChange }: DialogProps & { about: string }) {
  const action = useAction()
  const reason = useReason('pause-reason')
  const note = reason.text.trim()
  const pause = async () => {
    if (!(await action.run(() => post(`${at.path}/pause`, note ? { note } : {})))) return
    announce('Paused.')
    onClose()
    onChange()
  }
  return (
    <Dialog title={`Pause the ${at.kind} ${at.name}?`} onClose={onClose}>
      <p>{about}</p>
      <ReasonField of={reason} about="all who look at it see it" />
      <Problem of={action.problem} />
      <div class="actions"><span class="pair"><button type="button" class="primary" disabled={action.busy} onClick={() => void pause()}>Pause</button><Command text={commands.webhookPause(at.kind, at.name, note)} /></span></div>
    </Dialog>
  )
}

/** DeleteButton deletes a hook or a destination after it has said what is lost. */
export function DeleteButton({ at, children, onChange }: { at: At; children: ComponentChildren; onChange: () => void }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <span class="pair"><button type="button" class="danger" onClick={() => setOpen(true)}>Delete…</button><Command text={commands.webhook(at.kind, 'delete', at.name)} /></span>
      {open && <Delete at={at} onClose={() => setOpen(false)} onChange={onChange}>{children}</Delete>}
    </>
  )
}

function Delete({ at, children, onClose, onChange }: DialogProps & { children: ComponentChildren }) {
  const action = useAction()
  const erase = async () => {
    if (!(await action.run(() => post(`${at.path}/delete`)))) return onChange()
    announce('Deleted.')
    onClose()
    go(href('/webhooks'))
  }
  return (
    <Dialog title={`Delete the ${at.kind} ${at.name}?`} onClose={onClose}>
      <p>{children}</p>
      <Problem of={action.problem} />
      <div class="actions"><button type="button" class="danger" disabled={action.busy} onClick={() => void erase()}>Delete</button></div>
    </Dialog>
  )
}

/** RotateButton gives a hook or a destination another secret. both says what happens while two of them count. */
export function RotateButton({ at, provider, both, onChange }: { at: At; provider: string; both: string; onChange: () => void }) {
  const [open, setOpen] = useState(false)
  if (making(provider) === 'none') return null
  return (
    <>
      <span class="pair"><button type="button" onClick={() => setOpen(true)}>Rotate the secret…</button><Command text={commands.webhookRotate(at.kind, at.name, '24h')} /></span>
      {open && <Rotate at={at} provider={provider} both={both} onClose={() => setOpen(false)} onChange={onChange} />}
    </>
  )
}

const keeps: [string, string][] = [['1h', 'one hour'], ['24h', 'a day'], ['7d', 'a week'], ['0s', 'not at all']]

/**
 * Rotate sets another secret. The secret is in this dialog alone: it is gone when the dialog is closed. An attempt that fails keeps it, because
 * the node may have taken it, and a repetition with the same secret changes nothing.
 */
function Rotate({ at, provider, both, onClose, onChange }: DialogProps & { provider: string; both: string }) {
  const here = making(provider) === 'here'
  const [secret, setSecret] = useState(() => (here ? newSecret(provider) : ''))
  const [keep, setKeep] = useState('24h')
  const action = useAction()
  const [done, setDone] = useState(false)
  const rotate = async (e: Event) => {
    e.preventDefault()
    if (!(await action.run(() => post(`${at.path}/rotate`, { secret, keep })))) return
    setDone(true)
    announce('Rotated.')
    onChange()
  }
  return (
    <Dialog title={`Another secret for the ${at.kind} ${at.name}`} onClose={onClose}>
      {!done && (
        <form class="form" autocomplete="off" onSubmit={(e) => void rotate(e)}>
          <p>{here ? 'The page makes a new secret, and shows it once.' : 'The sender makes the new secret, and shows it in its settings.'} {both}</p>
          {!here && <div class="field"><label for="rotate-secret">New secret</label><input id="rotate-secret" type="password" autocomplete="off" required minLength={16} maxLength={256} value={secret} onInput={(e) => setSecret(e.currentTarget.value.trim())} /></div>}
          <div class="field"><label for="rotate-keep">The one before counts for</label><select id="rotate-keep" value={keep} onChange={(e) => setKeep(e.currentTarget.value)}>{keeps.map(([value, name]) => <option key={value} value={value}>{name}</option>)}</select></div>
          <Problem of={action.problem} />
          <div class="actions"><span class="pair"><button class="primary" disabled={action.busy}>Rotate</button><Command text={commands.webhookRotate(at.kind, at.name, keep)} /></span></div>
        </form>
      )}
      {here && (done || mayPass(action.problem)) && <Shown secret={secret} sure={done} />}
      {done && <div class="actions"><button type="button" class="primary" onClick={onClose}>Done</button></div>}
    </Dialog>
  )
}

/** Shown shows a secret. It is not sure if the node has not said that it has taken it. */
function Shown({ secret, sure }: { secret: string; sure: boolean }) {
  const box = useRef<HTMLElement>(null)
  useEffect(() => box.current?.focus(), [])
  return (
    <section ref={box} class="note stack" tabIndex={-1} aria-label="The new secret">
      <p>{sure ? 'This is the new secret. Nothing shows it again: neither this page nor the node.' : 'If the node has taken it after all, this is the new secret. Try again: a repetition changes nothing.'}</p>
      <p><code class="secret">{secret}</code> <Copy text={secret} label="Copy the secret">Copy</Copy></p>
    </section>
  )
}
