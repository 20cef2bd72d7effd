import { useState } from 'preact/hooks'
import type { PauseView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { words } from '../format.ts'
import { decides, readStatus, status } from '../node.ts'
import { href } from '../route.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { ReasonField, useReason } from '../ui/reason.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'

/** nodePause is the pause of the whole node, or undefined. */
export const nodePause = (): PauseView | undefined => status.value?.paused?.find((p) => p.kind === 'node')

/** PausedBanner says on every page that the node is paused: nothing goes on, whatever the page below says. */
export function PausedBanner() {
  const p = nodePause()
  if (!p) return null
  return (
    <p class="banner" role="status">
      The node is paused: no call starts until it is resumed. <span class="thin">By <Txt>{p.by || 'unknown'}</Txt>{p.reason && <>: <Txt>{p.reason}</Txt></>}. <a href={href('/queue')}>Pauses</a></span>
    </p>
  )
}

/** PauseNode pauses the node after a confirmation. */
export function PauseNode() {
  const [open, setOpen] = useState(false)
  if (!decides.value || nodePause()) return null
  return (
    <span class="pair">
      <button type="button" class="danger" onClick={() => setOpen(true)}>Pause the node…</button><Command text={commands.pauseNode('')} />
      {open && (
        <Confirm
          title="Pause the node?" verb="Pause" path="/pause" target={{ node: true }} said="Paused." command={commands.pauseNode} danger onClose={() => setOpen(false)}
          about="No task of anybody starts a call until the node is resumed. Calls that run come to their end, and what can be decided can still be decided."
        />
      )}
    </span>
  )
}

/** ResumeButton ends a pause after a confirmation. */
export function ResumeButton({ of: p }: { of: PauseView }) {
  const [open, setOpen] = useState(false)
  const what = p.kind === 'node' ? 'the node' : `the ${p.kind} ${p.name ?? ''}`
  const run = (reason: string) => commands.resumePause(p.kind, p.name ?? '', reason)
  return (
    <span class="pair">
      <button type="button" onClick={() => setOpen(true)}>Resume…</button><Command text={run('')} />
      {open && (
        <Confirm
          title={`Resume ${what}?`} verb="Resume" path="/resume" target={p.kind === 'node' ? { node: true } : { [p.kind]: p.name }} said="Resumed." command={run} onClose={() => setOpen(false)}
          about={`${words(p.kind)} ${p.name ?? ''} was paused by ${p.by || 'unknown'}${p.reason ? `: ${p.reason}` : ', without a reason'}. What waits for it starts at once.`}
        />
      )}
    </span>
  )
}

interface ConfirmProps {
  title: string
  about: string
  verb: string
  path: string
  target: object
  said: string
  danger?: boolean
  command: (reason: string) => string
  onClose: () => void
}

function Confirm(p: ConfirmProps) {
  const action = useAction()
  const reason = useReason('steer-reason')
  const why = reason.text.trim()
  const act = async () => {
    if (!(await action.run(() => post(p.path, { ...p.target, ...(why ? { reason: why } : {}) })))) return
    announce(p.said)
    p.onClose()
    await readStatus()
  }
  return (
    <Dialog title={p.title} onClose={p.onClose}>
      <p><Txt>{p.about}</Txt></p>
      <ReasonField of={reason} about="stays in the log, and all who look at it see it" />
      <Problem of={action.problem} />
      <div class="actions"><span class="pair"><button type="button" class={p.danger ? 'danger' : 'primary'} disabled={action.busy} onClick={() => void act()}>{p.verb}</button><Command text={p.command(why)} /></span></div>
    </Dialog>
  )
}
