import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ConversationReply, SaidView, TurnCall, TurnView } from '../api.ts'
import { post } from '../client.ts'
import { commands } from '../commands.ts'
import { Reader, type Talk } from '../conversation.ts'
import { count, dollars, moment, nanoseconds, plural } from '../format.ts'
import { compact, exactly } from '../json.ts'
import { epoch, submits } from '../node.ts'
import { href, query, setQuery } from '../route.ts'
import { Command } from '../ui/copy.tsx'
import { Long } from '../ui/json.tsx'
import { Empty, Loading, Problem } from '../ui/notice.tsx'
import { State } from '../ui/state.tsx'
import { Line, Txt } from '../ui/text.tsx'
import { Ago } from '../ui/time.tsx'
import { useAction } from '../ui/use.ts'

/** agentOf returns the agent step that the address selects: by its key, or by that of one of its calls. */
export function agentOf(agents: string[], step: string): string {
  const named = query.value.get('agent') ?? ''
  return [named, step, step.replace(/\.(t\d+\.[mc]\d*|b\d+)$/, '')].find((key) => agents.includes(key)) ?? agents[0] ?? ''
}

interface ConversationProps { id: string; agents: string[]; step: string; rev: number; live: boolean; version: number; kept: Record<string, string | undefined> }

/** Conversation shows what an agent step and its model said, up to a revision. */
export function Conversation({ id, agents, step: selected, rev, live, version, kept }: ConversationProps) {
  const step = agentOf(agents, selected)
  const { talk, problem, reader } = useConversation(id, step, live ? 0 : rev, version)
  return (
    <div class="talk">
      <div class="row">
        {agents.length > 1 && (
          <div class="field">
            <label for="agent">Agent step</label>
            <select id="agent" value={step} onChange={(e) => setQuery({ agent: e.currentTarget.value, step: undefined })}>{agents.map((key) => <option key={key} value={key}><Line>{key}</Line></option>)}</select>
          </div>
        )}
        {talk && <Head of={talk.head} />}
        <Command text={commands.agentShow(id, step, live ? 0 : rev)} />
      </div>
      <Problem of={problem} />
      {!talk && !problem && <Loading />}
      {talk && <Turns of={talk} reader={reader} to={(key) => href(`/tasks/${id}`, { ...kept, tab: 'conversation', agent: step, step: key })} />}
      {talk?.head.state === 'running' && live && submits.value && <Say key={step} of={talk.head} />}
    </div>
  )
}

interface Reading { talk: Talk | undefined; problem: unknown; reader: Reader | undefined }

/** useConversation reads a conversation and follows it. While another revision is read, it keeps the one that is shown. */
function useConversation(id: string, step: string, rev: number, version: number): Reading {
  const [talk, setTalk] = useState<Talk>()
  const [problem, setProblem] = useState<unknown>()
  const reader = useRef<Reader | undefined>(undefined)
  const atEnd = useRef(false)
  const path = `/tasks/${id}/steps/${encodeURIComponent(step)}/conversation`
  useEffect(() => { setTalk(undefined); setProblem(undefined) }, [path])
  useEffect(() => {
    const r = new Reader(path, rev, (t) => { atEnd.current = rev === 0 && seesEnd(); setTalk(t) }, setProblem)
    reader.current = r
    r.refresh()
    return () => r.stop()
  }, [path, rev])
  useEffect(() => { if (rev === 0) reader.current?.refresh() }, [version, epoch.value])
  const last = talk?.turns.at(-1)?.turn ?? 0
  const shown = useRef(0)
  useLayoutEffect(() => {
    if (shown.current > 0 && last > shown.current && atEnd.current) scrollToEnd()
    shown.current = last
  }, [talk])
  return { talk, problem, reader: reader.current }
}

const box = (): HTMLElement | null => document.getElementById('main')

/** seesEnd reports whether the end of the page is on the screen, so that new turns are to follow. */
function seesEnd(): boolean {
  const main = box()
  return main !== null && main.scrollTop > 0 && main.scrollHeight - main.scrollTop - main.clientHeight < 80
}

function scrollToEnd(): void {
  const main = box()
  if (main) main.scrollTop = main.scrollHeight
}

/** Head says where the agent is, and what it has used of its budget. */
function Head({ of: h }: { of: ConversationReply }) {
  const budget = [h.limits.nano_usd && dollars(h.limits.nano_usd), h.limits.tokens && plural(h.limits.tokens, 'token'), h.limits.calls && plural(h.limits.calls, 'call')].filter(Boolean)
  return (
    <p class="facts-line grow" role="status">
      <State of={h.state} />
      {h.limits.max_turns > 0 && <span>{plural(h.total, 'turn')} of at most {count(h.limits.max_turns)}</span>}
      <span>used {dollars(h.used.nano_usd ?? 0)}, {plural(h.used.tokens ?? 0, 'token')}, {plural(h.used.calls ?? 0, 'call')}{budget.length > 0 && ` of at most ${budget.join(', ')}`}</span>
      {h.waits && <span>waits for a message</span>}
      {h.approval && <a href={href(`/inbox/${h.approval}`)}>waits for an approval: it has reached a limit</a>}
      {h.lost?.tokens ? <span>at most {plural(h.lost.tokens, 'token')} of lost answers</span> : null}
      {h.reserved?.nano_usd ? <span>{dollars(h.reserved.nano_usd)} reserved</span> : null}
    </p>
  )
}

function Turns({ of: { head, turns }, reader, to }: { of: Talk; reader: Reader | undefined; to: (key: string) => string }) {
  const first = turns[0]?.turn ?? 1
  const reused = head.reused_from
  return (
    <>
      {head.error && <div class="problem"><p><Txt>{head.error.message}</Txt> <code>{head.error.name}</code></p></div>}
      {reused && <p class="note">The result is that of another task. <a href={href(`/tasks/${reused}`, { tab: 'conversation', agent: head.step })}>Its conversation</a></p>}
      {head.prompt !== '' && <Beginning of={head} />}
      {first > 1 && <button type="button" onClick={() => void reader?.earlier()}>Show turns before {count(first)}</button>}
      {turns.length === 0 && !reused && <Empty title="The model has not been asked.">{head.state === 'pending' ? 'The step has not begun.' : ''}</Empty>}
      <ol class="turns" aria-label="Turns">{turns.map((t) => <li key={t.turn}><Turn of={t} to={to} onWhole={() => void reader?.whole(t.turn)} /></li>)}</ol>
      {head.unheard && <><p class="note">The model hears in its next turn:</p><Said all={head.unheard} /></>}
    </>
  )
}

/** Said is what people have said to the agent. */
function Said({ all }: { all: SaidView[] }) {
  return <>{all.map((s, i) => <div key={i}><p class="kicker"><Txt>{s.by}</Txt></p><div class="said"><Txt>{s.text}</Txt></div></div>)}</>
}

/** Say says something to an agent that works, and ends its chat. */
function Say({ of: h }: { of: ConversationReply }) {
  const [text, setText] = useState('')
  const action = useAction()
  const send = async (end: boolean) => {
    if (await action.run(async () => post(`/tasks/${h.id}/steps/${encodeURIComponent(h.step)}/say`, { text, end, seen_rev: h.rev }))) setText('')
  }
  const chats = h.waits === true
  return (
    <form class="decide" onSubmit={(e) => { e.preventDefault(); void send(false) }}>
      <div class="field">
        <label for="say">{chats ? 'Your message' : 'Say something to the agent; its model hears it in its next turn'}</label>
        <textarea id="say" rows={3} required value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </div>
      <Problem of={action.problem} />
      <div class="actions">
        <span class="pair"><button class="primary" disabled={action.busy || text.trim() === ''}>Say</button><Command text={commands.agentSay(h.id, h.step, text, false)} /></span>
        {chats && <span class="pair"><button type="button" disabled={action.busy} onClick={() => void send(true)}>End the chat</button><Command text={commands.agentSay(h.id, h.step, text, true)} /></span>}
      </div>
    </form>
  )
}

/** Beginning is what the model sees before the first turn. */
function Beginning({ of: h }: { of: ConversationReply }) {
  const tools = h.tools ?? []
  return (
    <details class="beginning">
      <summary>Prompt{h.instructions && ', instructions'} and {plural(tools.length, 'tool')} for <Txt>{(h.models ?? []).join(', then ')}</Txt></summary>
      {h.instructions && <><h2>Instructions</h2><div class="said"><Txt>{h.instructions}</Txt></div></>}
      <h2>Prompt</h2>
      <div class="said"><Txt>{h.prompt}</Txt></div>
      {tools.length > 0 && <><h2>Tools</h2><p><Txt>{tools.join(', ')}</Txt></p></>}
    </details>
  )
}

const cut = /\n\[\d+ of \d+ bytes are shown\]$/

function Turn({ of: t, to, onWhole }: { of: TurnView; to: (key: string) => string; onWhole: () => void }) {
  const calls = t.calls ?? []
  const isCut = [t.text, t.added, ...(t.heard ?? []).map((s) => s.text), ...calls.flatMap((c) => [c.args, c.result])].some((text) => cut.test(text ?? ''))
  return (
    <>
      <h2 class="facts-line">
        <StepLink to={to} step={t.asks}>Turn {count(t.turn)}</StepLink>
        <State of={t.state} />
        {t.model && <span><Txt>{t.model}</Txt></span>}
        {t.asked_at && <span title={moment(t.asked_at)}><Ago at={t.asked_at} /></span>}
        {t.duration ? <span>took {nanoseconds(t.duration)}</span> : null}
        {(t.attempt ?? 1) > 1 && <span>attempt {t.attempt}</span>}
        {t.reused_from && <a href={href(`/tasks/${t.reused_from}`, { tab: 'conversation', agent: t.asks.replace(/\.t\d+\.m$/, '') })}>from another task</a>}
        {t.due && <span>again at {moment(t.due)}</span>}
        {t.stop && t.stop !== 'end' && t.stop !== 'calls' && <span>stopped: <Txt>{t.stop}</Txt></span>}
        {t.final && <span>without tools</span>}
        {t.summarizes ? <span>summarizes turns 1 to {count(t.summarizes)}</span> : null}
        <Cost of={t} />
      </h2>
      {t.differs && <p class="note">The request differs from the recorded one in <Txt>{t.differs.join(', ')}</Txt>.</p>}
      {t.heard && <Said all={t.heard} />}
      {t.added && <p class="note"><Txt>{t.added}</Txt></p>}
      {t.text && <div class="said"><Txt>{t.text}</Txt></div>}
      {calls.length > 0 && <ul class="calls" aria-label={`Calls of turn ${t.turn}`}>{calls.map((c) => <li key={c.step}><Call of={c} to={to} /></li>)}</ul>}
      {t.error && <div class="problem"><p><Txt>{t.error.message}</Txt> <code>{t.error.name}</code></p></div>}
      {isCut && <button type="button" class="link" onClick={onWhole}>Show more of this turn</button>}
    </>
  )
}

/** StepLink opens a step beside the conversation. The focus stays where it is. */
function StepLink({ to, step, children }: { to: (key: string) => string; step: string; children: ComponentChildren }) {
  const open = (e: MouseEvent) => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    e.preventDefault()
    setQuery({ step })
  }
  return <a href={to(step)} onClick={open}>{children}</a>
}

/** Cost is what a turn used, or may use at most. */
function Cost({ of: t }: { of: TurnView }) {
  const u = t.usage
  const request = (u?.input ?? 0) + (u?.cache_read ?? 0) + (u?.cache_write ?? 0)
  const money = u ? t.nano_usd : t.reserved?.nano_usd
  return (
    <span class="cost">
      {u ? `${count(request)} + ${plural(u.output, 'token')}${t.estimated ? ' (estimated)' : ''}` : `at most ${plural(t.reserved?.tokens ?? 0, 'token')}`}
      {money ? <> <strong>{dollars(money)}</strong></> : null}
      {t.charged ? <> · child tasks {t.charged.nano_usd ? dollars(t.charged.nano_usd) : plural(t.charged.tokens ?? 0, 'token')}</> : null}
    </span>
  )
}

const brief = (text: string): string => { const line = text.replace(/\s+/g, ' ').trim(); return line.length > 160 ? `${line.slice(0, 159)}…` : line }

/** Call is a call that the model requests: its arguments and its result as the model sees it. */
function Call({ of: c, to }: { of: TurnCall; to: (key: string) => string }) {
  const args = exactly(c.args)
  return (
    <>
      <details>
        <summary><State of={c.state} /> <code><Txt>{c.tool}</Txt></code> <span class="quiet"><Line>{brief(args === undefined ? c.args : compact(args))}</Line></span></summary>
        <h3>Arguments, as the model wrote them</h3>
        <Long text={c.args} label={`arguments of ${c.step}`} />
        {c.result !== undefined && <><h3>Result, as the model sees it</h3><Long text={c.result} label={`result of ${c.step}`} /></>}
      </details>
      <p class="small"><StepLink to={to} step={c.step}><Txt>{c.step}</Txt></StepLink>{c.duration ? ` · ${nanoseconds(c.duration)}` : ''}{c.recorded && ' · recorded, nothing was called'}
        {c.state === 'parked' && c.approval && <> · <a href={href(`/inbox/${c.approval}`)}>waits for an approval</a></>}
        {c.child && <> · <a href={href(`/tasks/${c.child}`)}>child task</a></>}
        {c.result !== undefined && <> · <span class={c.failed ? 'wrongtext' : 'quiet'}><Line>{brief(c.result)}</Line></span></>}
      </p>
    </>
  )
}
