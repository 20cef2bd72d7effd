import type { ComponentChildren } from 'preact'
import { commands } from '../commands.ts'
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
import { Retention } from './retention.tsx'

/** NodePage describes the node: its health, its store and its pauses. */
export function NodePage() {
  useTitle('Node')
  const s = status.value
  if (!s) return <Loading />
  return (
    <div class="scroll">
      <h1>Node</h1>
      <p><span class={`state ${s.ready ? 'good' : 'bad'}`}>{s.ready ? 'Ready' : 'Not ready'}</span>{nodePause() && <> <span class="state off">Paused</span></>} <span class="quiet">since <Ago at={s.started_at} /></span></p>
      {s.refusing && <div class="problem" role="alert"><p><Txt>{s.refusing.message}</Txt> <code>{s.refusing.code}</code></p>{s.refusing.hint && <p class="quiet"><Txt>{s.refusing.hint}</Txt></p>}</div>}
      <Pauses of={s.paused ?? []} />
      <dl class="facts wide">
        <Fact name="You are"><Txt>{s.identity || 'the operator'}</Txt>, {s.role || 'operator'}</Fact>
        <Fact name="Version"><Txt>{s.version}</Txt></Fact>
        <Fact name="Tasks">{count(s.open)} open, {count(s.finished)} finished</Fact>
        <Fact name="Calls">{count(s.running)} running, {count(Object.values(s.queued ?? {}).reduce((a, b) => a + b, 0))} queued</Fact>
        <Fact name="Store"><Txt>{s.store}</Txt></Fact>
        <Fact name="Durability"><Txt>{s.durability}</Txt>{s.syncing && <>, synced: <Txt>{s.syncing}</Txt></>}</Fact>
        <Fact name="Root"><code><Txt>{s.root || '–'}</Txt></code></Fact>
        <Fact name="Memory">{s.memory_mib} MiB</Fact>
        <Fact name="Started">{moment(s.started_at)}</Fact>
      </dl>
      <div class="actions">
        <PauseNode />
        <span class="withtext">Check every part: <code>{commands.doctor()}</code><Command text={commands.doctor()} /></span>
      </div>
      {!limited.value && <Retention />}
      {!limited.value && <Holds />}
    </div>
  )
}

const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>
