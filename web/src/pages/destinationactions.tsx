import { useState } from 'preact/hooks'
import type { DeliveryAttempt, DeliveryView, DestinationView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { count, plural } from '../format.ts'
import { decides } from '../node.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Problem } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { useAction } from '../ui/use.ts'
import { at } from '../webhooks.ts'
import { DeleteButton, PauseButton, RotateButton } from './webhookactions.tsx'

/** DestinationActions tests, redelivers, pauses, rotates and deletes a destination. */
export function DestinationActions({ of: d, onChange, onRedelivered }: { of: DestinationView; onChange: () => void; onRedelivered: () => void }) {
  const action = useAction()
  const [tested, setTested] = useState<DeliveryAttempt>()
  const [again, setAgain] = useState(false)
  if (!decides.value) return null
  const self = at('destination', d.name)
  const test = () => action.run(async () => {
    setTested(undefined)
    setTested((await post<DestinationView>(`${self.path}/test`)).tested)
  })
  return (
    <>
      <div class="actions" role="group" aria-label="Actions">
        <span class="pair"><button type="button" class="primary" disabled={action.busy} onClick={() => void test()}>Send a test</button><Command text={commands.webhook('destination', 'test', d.name)} /></span>
        {d.dead > 0 && <span class="pair"><button type="button" onClick={() => setAgain(true)}>Redeliver {letters(d.dead)}…</button><Command text={commands.webhook('destination', 'redeliver', d.name)} /></span>}
        <PauseButton at={self} paused={d.paused !== undefined} about="Deliveries then wait, and none is missed." onChange={onChange} />
        <RotateButton at={self} provider="standard" both="Deliveries are signed with both for a while, so that the receiver can be changed in between." onChange={onChange} />
        <DeleteButton at={self} onChange={onChange}>Its definition and its secret are lost{d.pending + d.dead > 0 && <>, and so are the {count(d.pending)} that wait and {letters(d.dead)}</>}.</DeleteButton>
      </div>
      <div role="status">{tested && <Tested of={tested} />}</div>
      <Problem of={action.problem} />
      {again && <RedeliverAll of={d} onClose={() => setAgain(false)} onDone={onRedelivered} onStale={onChange} />}
    </>
  )
}

const letters = (n: number): string => plural(n, 'dead letter')

function Tested({ of: a }: { of: DeliveryAttempt }) {
  return a.error
    ? <p><span class="state bad">Test failed</span>: <Txt>{a.error}</Txt></p>
    : <p><span class="state good">Test delivered</span>: the receiver answered {a.status}.</p>
}

const previewed = 20

/** RedeliverAll shows the dead letters that would wait again, and makes exactly these wait; all of them, if the page does not know each. */
function RedeliverAll({ of, onClose, onDone, onStale }: { of: DestinationView; onClose: () => void; onDone: () => void; onStale: () => void }) {
  const [d] = useState(of) // what was shown is what is done, although the page goes on reading
  const action = useAction()
  const dead = d.dead_deliveries ?? []
  const rest = d.dead - Math.min(dead.length, previewed)
  const deliveries = dead.length === d.dead ? dead.map((one) => one.id) : []
  const redeliver = async () => {
    if (!(await action.run(() => post(`${at('destination', d.name).path}/redeliver`, { deliveries })))) return onStale()
    announce(`${letters(d.dead)} ${d.dead === 1 ? 'waits' : 'wait'} for delivery again.`)
    onClose()
    onDone()
  }
  return (
    <Dialog title={`Redeliver ${letters(d.dead)} to ${d.name}?`} onClose={onClose} wide>
      <p>They wait for delivery again, and are tried as often as new ones.{d.paused && ' The destination is paused: they wait until it is resumed.'}</p>
      <ul class="preview">
        {dead.slice(0, previewed).map((one) => <li key={one.id}><span class="title"><Txt>{one.type}</Txt></span> <span class="quiet"><Txt>{one.task}</Txt>, {plural(one.attempts, 'attempt')}: <Txt>{one.last?.error}</Txt></span></li>)}
      </ul>
      {rest > 0 && <p class="quiet">and {count(rest)} more</p>}
      <Problem of={action.problem} />
      <div class="actions"><span class="pair"><button type="button" class="primary" disabled={action.busy} onClick={() => void redeliver()}>Redeliver {count(d.dead)}</button><Command text={commands.webhook('destination', 'redeliver', d.name)} /></span></div>
    </Dialog>
  )
}

/** Redeliver makes one dead letter wait for delivery again. */
export function Redeliver({ name, of: one, onChange }: { name: string; of: DeliveryView; onChange: () => void }) {
  const action = useAction()
  const redeliver = async () => {
    if (await action.run(() => post(`${at('destination', name).path}/redeliver`, { deliveries: [one.id] }))) announce('It waits for delivery again.')
    onChange()
  }
  return (
    <>
      <span class="pair"><button type="button" disabled={action.busy} aria-label={`Redeliver ${one.id}`} onClick={() => void redeliver()}>Redeliver</button><Command text={commands.webhook('destination', 'redeliver', name, one.id)} /></span>
      <Problem of={action.problem} />
    </>
  )
}
