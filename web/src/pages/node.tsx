import type { ComponentChildren } from 'preact'
import type { Status } from '../api.ts'
import { commands } from '../commands.ts'
import { bytes } from '../files.ts'
import { count, moment } from '../format.ts'
import { status, limited } from '../node.ts'
import { Command } from '../ui/copy.tsx'
import { Loading } from '../ui/notice.tsx'
import { Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useTitle } from '../ui/use.ts'
import { Holds } from './holds.tsx'
import { nodePause, PauseNode } from './nodepause.tsx'
import { Pauses } from './queue.tsx'
import { Rates } from './rates.tsx'
import { Retention } from './retention.tsx'

/** NodePage describes the node: its health, its store and its pauses. */
export function NodePage() {
  useTitle('Node')
  const s = status.value
  if (!s) return <Loading />
  const pause = nodePause()
  return (
    <div class="scroll">
      <h1>Node</h1>
      <p>
        <span class={`state ${s.ready ? 'good' : 'bad'}`}>{s.ready ? 'Ready' : 'Not ready'}</span>{' '}
        <span class="quiet">since <Ago at={s.started_at} /></span>{pause && <> <span class="state wait">Paused: no call starts</span> <span class="quiet">since <Ago at={pause.at} /></span></>}
      </p>
      {s.refusing && <div class="problem" role="alert"><p><Txt>{s.refusing.message}</Txt> <code>{s.refusing.code}</code></p>{s.refusing.hint && <p class="quiet"><Txt>{s.refusing.hint}</Txt></p>}</div>}
      <Pauses of={s.paused ?? []} />
      <dl class="facts wide">
        <Fact name="You are"><Txt>{s.identity || 'the operator'}</Txt>, {s.role || 'operator'}</Fact>
        <Fact name="Version"><Txt>{s.version}</Txt></Fact>
        <Fact name="Tasks">{count(s.open)} open, {count(s.finished)} finished</Fact>
        <Fact name="Calls">{count(s.running)} running, {count(Object.values(s.queued ?? {}).reduce((a, b) => a + b, 0))} queued</Fact>
        <Fact name="Store"><Txt>{s.store}</Txt></Fact>
        {s.storage && <Fact name="Disk"><Disk of={s.storage} /></Fact>}
        {s.storage && <Fact name="Size of the store">{bytes(s.storage.used)}{s.storage.max_store ? `, at most ${bytes(s.storage.max_store)}` : ', without a limit of its own'}</Fact>}
        <Fact name="Durability"><Txt>{s.durability}</Txt>{s.syncing && <>, synced: <Txt>{s.syncing}</Txt></>}</Fact>
        <Fact name="Root"><code><Txt>{s.root || '–'}</Txt></code></Fact>
        <Fact name="Memory">{s.memory_mib} MiB</Fact>
        <Fact name="Started">{moment(s.started_at)}</Fact>
      </dl>
      <Rates />
      <div class="actions">
        <PauseNode />
        <span class="withtext">Check every part: <code>{commands.doctor()}</code><Command text={commands.doctor()} /></span>
      </div>
      {!limited.value && <Retention />}
      {!limited.value && <Holds />}
    </div>
  )
}

/** timely is how many times the least free space is shown as little; orch doctor warns there, too. */
const timely = 2

const Disk = ({ of: d }: { of: NonNullable<Status['storage']> }) => (
  <>{bytes(d.free)} free{d.free < timely * d.min_free && <> <span class="state bad">little</span></>}; below {bytes(d.min_free)} the log takes nothing</>
)

const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>
