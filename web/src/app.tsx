import { useEffect, useState } from 'preact/hooks'
import { signedOut } from './client.ts'
import { keys, keysOn, setKeysOn, useKeys } from './keys.ts'
import { away, counts, limited, role, status, waiting } from './node.ts'
import { AgentsPage } from './pages/agents.tsx'
import { AuditPage } from './pages/audit.tsx'
import { ComparePage } from './pages/compare.tsx'
import { CostsPage } from './pages/costs.tsx'
import { InboxPage } from './pages/inbox.tsx'
import { NodePage } from './pages/node.tsx'
import { PausedBanner } from './pages/nodepause.tsx'
import { PolicyPage } from './pages/policy.tsx'
import { QueuePage } from './pages/queue.tsx'
import { SchedulesPage } from './pages/schedules.tsx'
import { ServersPage } from './pages/servers.tsx'
import { SessionsPage } from './pages/sessions.tsx'
import { TaskPage } from './pages/task.tsx'
import { TasksPage } from './pages/tasks.tsx'
import { WebhooksPage } from './pages/webhooks.tsx'
import { inboxRound } from './inbox.ts'
import { go, href, path } from './route.ts'
import { nextTheme, theme } from './theme.ts'
import { Announcer } from './ui/announce.tsx'
import { Boundary } from './ui/boundary.tsx'
import { Dialog } from './ui/dialog.tsx'
import { Empty } from './ui/notice.tsx'
import { OpenActNote } from './ui/openact.tsx'
import { Txt } from './ui/text.tsx'
import { setWaiting } from './ui/use.ts'

/** places are the entries of the navigation, with the key that follows g. */
const places: [string, string, string][] = [
  ['/inbox', 'Inbox', 'i'], ['/tasks', 'Tasks', 't'], ['/queue', 'Queue', 'q'], ['/sessions', 'Sessions', 's'], ['/compare', 'Compare', 'c'], ['/schedules', 'Schedules', 'h'], ['/webhooks', 'Webhooks', 'w'], ['/agents', 'Agents', 'a'], ['/costs', 'Costs', 'o'], ['/mcp', 'MCP servers', 'm'], ['/policy', 'Policy', 'p'], ['/audit', 'Audit', 'u'], ['/node', 'Node', 'n'],
]

/** shared are the places that only identities see who see the tasks of all. */
const shared = new Set(['/queue', '/schedules', '/webhooks', '/agents', '/mcp', '/policy', '/audit'])
const seen = (): typeof places => places.filter(([to]) => !limited.value || !shared.has(to))

/** App is the whole page. */
export function App() {
  const [help, setHelp] = useState(false)
  useEffect(() => { setWaiting(waiting.value); inboxRound.value++ }, [counts.value])
  useKeys([
    ...seen().map(([to, name, key]) => ({ key: `g ${key}`, does: `Go to ${name}`, run: () => go(href(to)) })),
    { key: '?', does: 'Show this list', run: () => setHelp(true) },
  ])
  if (signedOut.value) return <SignedOut />
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>Skip to the content</a>
      <Side onHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {away.value && <p class="banner" role="alert">The node is away. What you see may be out of date; the page goes on by itself when the node is back.</p>}
        <PausedBanner />
        <OpenActNote />
        <Boundary key={path.value.startsWith('/tasks/') ? path.value : path.value.split('/')[1]}><Page /></Boundary>
      </main>
      <Announcer />
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  )
}

function Page() {
  const [, place = '', id = '', part = ''] = path.value.split('/')
  switch (place) {
    case '': case 'inbox': case 'approvals': case 'questions': return <InboxPage id={decodeURIComponent(id)} />
    case 'tasks': return id ? <TaskPage key={id} id={decodeURIComponent(id)} /> : <TasksPage />
    case 'queue': return <QueuePage />
    case 'sessions': return <SessionsPage />
    case 'compare': return <ComparePage />
    case 'agents': return <AgentsPage />
    case 'costs': return <CostsPage />
    case 'schedules': return <SchedulesPage name={decodeURIComponent(id)} />
    case 'webhooks': return <WebhooksPage kind={id} name={decodeURIComponent(part)} />
    case 'mcp': return <ServersPage name={decodeURIComponent(id)} />
    case 'policy': return <PolicyPage />
    case 'audit': return <AuditPage />
    case 'node': return <NodePage />
    default: return <div class="scroll"><h1>Not found</h1><Empty title="There is no such page."><a href={href('/inbox')}>Inbox</a></Empty></div>
  }
}

const schemes = { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }

function Side({ onHelp }: { onHelp: () => void }) {
  const at = path.value === '/' ? '/inbox' : path.value
  const s = status.value
  return (
    <header class="side">
      <span class="brand">orch</span>
      <nav aria-label="Pages">
        {seen().map(([to, name]) => (
          <a key={to} href={href(to)} aria-current={at === to ? 'page' : at.startsWith(to + '/') ? 'true' : undefined}>
            {name}{to === '/inbox' && waiting.value > 0 && <span class="badge">{waiting.value}<span class="hidden"> waiting</span></span>}
          </a>
        ))}
      </nav>
      <div class="foot">
        {s && <p class="small"><Txt>{s.identity || 'operator'}</Txt>{role.value !== 'operator' && ` · ${role.value}`}</p>}
        <button type="button" class="plain small" onClick={nextTheme}>{schemes[theme.value]}</button>
        <button type="button" class="plain small" onClick={onHelp}>Shortcuts <kbd>?</kbd></button>
      </div>
    </header>
  )
}

function Help({ onClose }: { onClose: () => void }) {
  const all = [...new Map(keys.value.map((k) => [k.key, k])).values()]
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <dl class="keys">{all.map((k) => <div key={k.key}><dt>{k.key.split(' ').map((p) => <kbd key={p}>{p}</kbd>)}</dt><dd>{k.does}</dd></div>)}</dl>
      <p class="quiet">In lists the arrow keys, Page Up, Page Down, Home and End move the cursor.</p>
      <label class="check"><input type="checkbox" checked={keysOn.value} onChange={(e) => setKeysOn(e.currentTarget.checked)} /> Shortcuts of single keys</label>
    </Dialog>
  )
}

function SignedOut() {
  return (
    <main id="main" class="signedout">
      <h1>You are not signed in</h1>
      <p>Run <code>orch ui</code> on the machine of the node to open this page. Its link works once, within a minute.
        Then this page goes on by itself, where you wanted to go, and has kept the reasons that you were writing.</p>
      <p class="quiet">A login lasts 12 hours, and ends when the node stops: a restart signs everyone out.</p>
    </main>
  )
}
