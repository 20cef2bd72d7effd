// Several people work with one real node: each has a token of their own, or a browser that followed a link.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { settled } from '../kit.mjs'
import { Real } from '../real.mjs'

const hostile = '<img src=x onerror=alert(1)>\u001B[31m\u202Etxt.exe\u200B'
const log = (id, message, ...needs) => ({ id, needs, tool: 'LOG_WRITE', with: { level: 'INFO', message } })
const bash = (id, command, more = {}) => ({ id, tool: 'BASH_EXECUTE', with: { command }, ...more })
const asks = (description, form) => ({ id: 'ask', approve: { description, ...(form ? { form } : {}) } })

let real, tokens, early
before(async () => {
  real = await Real.start()
  early = { link: linkOf(), until: Date.now() + 61_000 }
  tokens = Object.fromEntries([['alice', 'operator'], ['bob', 'operator'], ['guest', 'viewer'], ['ada', 'submitter']].map(([name, role]) => [name, real.orch('token', 'create', name, '--role', role)]))
})
after(() => real?.stop())

const linkOf = () => real.orch('ui').match(/http\S+/)[0]

/** submit starts a plan and returns the id of its task. */
function submit(name, steps, more = {}) {
  const file = join(real.project, `${name.replace(/\W/g, '')}.json`)
  writeFileSync(file, JSON.stringify({ orch: 'v1', name, steps, ...more }))
  return real.orch('submit', file, '--detach', '-o', 'name')
}

/** asked submits a plan that asks, and returns the ids of its task and of its approval. */
function asked(name, description, form, more) {
  const task = submit(name, [asks(description, form), log('out', 'shipped', 'ask')], more)
  return { task, approval: real.orch('approvals', task, '-o', 'name') }
}

const read = (...args) => JSON.parse(real.orch(...args, '-o', 'json'))
const eventsOf = (task, kind) => real.orch('history', task, '-o', 'jsonl').split('\n').flatMap((line) => JSON.parse(line).events ?? []).filter((e) => e.kind === kind)

/** as returns a page of somebody with a token. */
async function as(name, path, options) {
  const page = await real.kit.open('/nowhere', options)
  await page.context().setExtraHTTPHeaders({ Authorization: `Bearer ${tokens[name]}` })
  await page.goto(`${real.kit.origin}/ui${path}`)
  await settled(page)
  return page
}

/** tabTo presses Tab until the focus is on an element that a test of its text accepts. */
async function tabTo(page, pattern) {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab')
    if (pattern.test(await page.evaluate(() => document.activeElement.textContent))) return
  }
  assert.fail(`no ${pattern} within 60 presses of Tab`)
}

test('by keyboard alone a person rejects: the form asks for the reason first', async () => {
  const { task, approval } = asked('reject', 'Ship it on a Friday?')
  const page = await real.login(`/inbox/${approval}`)
  await page.getByRole('heading', { name: 'Ship it on a Friday?' }).waitFor()
  const sent = []
  page.on('request', (r) => { if (r.method() === 'POST') sent.push(r.url()) })
  await tabTo(page, /^Reject$/)
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('Write why').waitFor()
  const field = page.getByRole('textbox', { name: /^Reason/ })
  assert.equal(await field.evaluate((e) => e === document.activeElement && e.getAttribute('aria-invalid')), 'true')
  assert.deepEqual(sent, [])
  await page.keyboard.type('not on a Friday')
  await tabTo(page, /^Reject$/)
  await page.keyboard.press('Enter')
  await page.getByText('Rejected.').waitFor()
  assert.equal(sent.length, 1)
  assert.equal(read('get', task).state, 'FAILED')
  assert.equal(read('approvals', approval).reason, 'not on a Friday')
  await real.kit.close(page)
})

test('a form reaches the plan as it was filled in', async () => {
  const properties = { canary: { type: 'integer', default: 10, minimum: 1 }, window: { type: 'string', enum: ['now', 'tonight'] }, notify: { type: 'boolean' } }
  const { task, approval } = asked('form', 'How shall it ship?', { type: 'object', required: ['window'], properties })
  const page = await real.login(`/inbox/${approval}`)
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  assert.equal(await page.getByRole('combobox', { name: /^window/ }).evaluate((e) => e.validity.valueMissing), true)
  assert.equal(read('approvals', approval).status, 'pending')
  await page.getByRole('spinbutton', { name: 'canary' }).fill('25')
  await page.getByRole('combobox', { name: /^window/ }).selectOption({ label: 'tonight' })
  await page.getByRole('checkbox', { name: 'notify' }).check()
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('Approved.').waitFor()
  real.orch('watch', task)
  const { output } = read('get', task).steps.find((s) => s.key === 'ask')
  assert.deepEqual(output.form, { canary: 25, window: 'tonight', notify: true })
  await real.kit.close(page)
})

test('of two people who decide at once one wins, and the other sees who', async () => {
  const { task, approval } = asked('race', 'Who is first?')
  const pages = { alice: await as('alice', `/inbox/${approval}`), bob: await as('bob', `/inbox/${approval}`) }
  for (const [name, p] of Object.entries(pages)) await p.getByRole('textbox', { name: /^Reason/ }).fill(`because ${name}`)
  const answers = Object.values(pages).map((p) => p.waitForResponse((r) => r.url().endsWith('/decide')))
  await Promise.all(Object.values(pages).map((p) => p.getByRole('button', { name: 'Approve', exact: true }).click()))
  const [byAlice, byBob] = (await Promise.all(answers)).map((a) => a.status())
  assert.deepEqual([byAlice, byBob].sort(), [200, 409])
  const [winner, other] = byAlice === 200 ? ['alice', 'bob'] : ['bob', 'alice']
  await pages[other].getByText(`user:${winner}`).first().waitFor()
  await pages[other].getByRole('alert').getByText(/^Your decision to approve was not taken: /).waitFor()
  await pages[other].getByText(`because ${other}`).waitFor()
  await pages[winner].getByText('Approved.').waitFor()
  assert.equal(await pages[winner].getByRole('alert').count(), 0)
  real.orch('watch', task)
  const decided = eventsOf(task, 'approval.granted')
  assert.deepEqual(decided.map((e) => e.data.approver), [`user:${winner}`])
  for (const page of Object.values(pages)) await real.kit.close(page)
})

test('the loser of two decisions is told on the page of the task, too, and keeps the reason', async () => {
  const { task, approval } = asked('race-of-task', 'Who is first here?')
  const page = await as('alice', `/tasks/${task}`)
  await page.getByRole('textbox', { name: /^Reason/ }).fill('because alice')
  await page.route('**/decide', async (route) => { real.orch('reject', approval, '--reason', 'faster'); await route.continue() })
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByRole('alert').getByText(/^Your decision to approve was not taken: /).waitFor()
  await page.getByRole('button', { name: 'Approve', exact: true }).waitFor({ state: 'detached' })
  await page.getByRole('alert').getByText('because alice').waitFor()
  await real.kit.close(page)
})

test('the badge is the number of entries, also with a question, and an answered one says by whom', async () => {
  submit('asks', [{ id: 'who', tool: 'QUESTION_ASK', with: { question: 'Which branch?' } }])
  real.orch('reject', asked('fails', 'Shall it fail?').approval, '--reason', 'yes')
  const page = await real.login('/inbox?kind=question')
  await page.getByRole('heading', { name: 'Which branch?' }).waitFor()
  const entries = async () => (await page.getByRole('group', { name: 'Kinds' }).locator('.n').allTextContents()).reduce((sum, n) => sum + Number(n), 0)
  const agree = async () => {
    const deadline = Date.now() + 15_000
    for (let n = -1; await page.title() !== `(${n}) Inbox · orch`; n = await entries()) assert.ok(Date.now() < deadline, `${await page.title()} for ${n} entries`)
  }
  await agree()
  await page.getByRole('textbox', { name: /answer/i }).fill('main')
  await page.getByRole('button', { name: 'Answer', exact: true }).click()
  await page.getByText(/^Answered by user:\S+, 20/).waitFor()
  await agree()
  await real.kit.close(page)
})

test('what was changed meanwhile is refused, with what it is now', async () => {
  const { task } = asked('stale', 'Still wanted?')
  const page = await as('bob', `/tasks/${task}`)
  const button = page.getByRole('button', { name: 'Pause', exact: true })
  await page.route('**/events*', (route) => route.abort()) // the page hears of no change
  await page.reload()
  await button.waitFor()
  await settled(page)
  const own = `**/api/v1/tasks/${task}*`
  await page.route(own, (route) => route.abort()) // nor does it read the task again
  real.orch('cancel', task, '--reason', 'not wanted')
  const [answer] = await Promise.all([page.waitForResponse((r) => r.url().endsWith('/pause')), button.click()])
  assert.equal(answer.status(), 409)
  await page.getByRole('alert').getByText(/^user:\S+ cancelled the task at revision \d+, which you have not seen/).waitFor()
  await page.unroute('**/events*')
  await page.unroute(own)
  await page.reload()
  await page.locator('.facts-line').getByText('Cancelled').waitFor()
  assert.equal(await button.count(), 0)
  assert.equal(eventsOf(task, 'task.paused').length, 0)
  await real.kit.close(page)
})

test('an approval of what somebody else has paused meanwhile is shown anew first', async () => {
  const { task, approval } = asked('paused', 'Still right?')
  const page = await real.kit.open('/nowhere')
  await page.context().setExtraHTTPHeaders({ Authorization: `Bearer ${tokens.bob}` })
  await page.route('**/events*', (route) => route.abort()) // the page hears of no change
  await real.kit.show(page, `/inbox/${approval}`)
  const approve = page.getByRole('button', { name: 'Approve', exact: true })
  await approve.waitFor()
  await settled(page) // the page has read the approval as a whole
  real.orch('pause', task)
  await approve.click()
  await page.getByRole('alert').getByText(/^user:\S+ paused the task at revision \d+, which you have not seen/).waitFor()
  assert.equal(read('approvals', approval).status, 'pending')
  await settled(page)
  await approve.click() // now it is seen
  await page.getByText('Approved.').waitFor()
  assert.equal(read('approvals', approval).status, 'granted')
  await real.kit.close(page)
})

test('hostile names are text everywhere, and the policy of the page has nothing to report', async () => {
  const steps = [asks(hostile), log('out', hostile, 'ask')]
  const task = submit(hostile, steps, { summary: hostile, inputs: { type: 'object', properties: { note: { type: 'string', default: hostile } } }, outputs: { note: '${{ inputs.note }}' } })
  const approval = real.orch('approvals', task, '-o', 'name')
  const page = await real.login('/inbox')
  const reports = []
  await page.exposeFunction('report', (what) => reports.push(what))
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => window.report(e.violatedDirective)))
  const look = async (path) => {
    await page.goto(`${real.kit.origin}/ui${path}`)
    await settled(page)
    await page.getByText('U+202E').first().waitFor()
    assert.ok(!/[\u001B\u200B\u202E]/.test(await page.locator('body').innerText()), path)
    assert.equal(await page.locator('main img, main iframe, main script').count(), 0, path)
  }
  for (const path of [`/inbox/${approval}`, `/tasks/${task}`, `/tasks/${task}?step=ask`, '/tasks', '/queue']) await look(path)
  await page.goto(`${real.kit.origin}/ui/inbox/${approval}`)
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.getByText('Approved.').waitFor()
  real.orch('watch', task)
  for (const tab of ['timeline', 'events', 'logs', 'data']) await look(`/tasks/${task}?tab=${tab}`)
  assert.deepEqual(reports, [])
  await page.evaluate(() => document.body.append(Object.assign(document.createElement('script'), { textContent: '1' })))
  for (let i = 0; i < 100 && reports.length === 0; i++) await page.evaluate(() => new Promise(requestAnimationFrame))
  assert.match(reports.join(), /^script-src/, 'a script that does get in is reported')
  real.kit.errors = real.kit.errors.filter((e) => !e.includes('Content Security Policy'))
  await real.kit.close(page)
})

test('filters in the address survive a reload and the way back', async () => {
  const ids = ['red', 'blue'].map((team) => submit(`paint-${team}`, [log('out', team)], { labels: { team } }))
  for (const id of ids) real.orch('watch', id)
  const page = await real.login('/tasks')
  await page.getByLabel('Name').fill('paint-*')
  await page.getByLabel('Name').press('Enter')
  await page.getByLabel('Label').fill('team=red')
  await page.getByLabel('Label').press('Enter')
  await page.getByRole('button', { name: /^Done/ }).click()
  const only = async () => {
    await page.waitForFunction(() => [...document.querySelectorAll('.table li a')].map((a) => a.textContent).join() === 'paint-red')
    assert.deepEqual([await page.getByLabel('Name').inputValue(), await page.getByLabel('Label').inputValue()], ['paint-*', 'team=red'])
    assert.equal(await page.getByRole('button', { name: /^Done/ }).getAttribute('aria-pressed'), 'true')
  }
  await page.getByRole('link', { name: 'paint-blue' }).waitFor({ state: 'detached' })
  await only()
  await page.reload()
  await only()
  await page.getByRole('link', { name: 'paint-red' }).click()
  await page.getByRole('heading', { name: 'paint-red' }).waitFor()
  await page.goBack()
  await only()
  await real.kit.close(page)
})

test('what is typed into a filter stays while the list changes', async () => {
  const page = await real.login('/tasks')
  await page.getByLabel('Name').pressSequentially('meanwhi')
  await page.waitForURL(/name=meanwhi$/) // after a pause in typing
  submit('comes-meanwhile', [log('out', 'new')])
  await page.getByRole('link', { name: 'comes-meanwhile' }).waitFor()
  assert.equal(await page.getByLabel('Name').evaluate((e) => e === document.activeElement && e.value), 'meanwhi')
  await page.getByLabel('Name').pressSequentially('x')
  await page.getByText('No task matches.').waitFor()
  assert.match(page.url(), /name=meanwhix/)
  await real.kit.close(page)
})

test('the pasted id of a task finds it', async () => {
  const id = submit('found-by-id', [log('out', 'here')])
  const page = await real.login('/tasks')
  await page.getByLabel('Name').fill(id)
  await page.getByRole('heading', { name: 'found-by-id' }).waitFor()
  await real.kit.close(page)
})

test('filters that the node refuses list nothing, and leave nothing to select', async () => {
  submit('not-armed', [log('out', 'here')])
  const page = await real.login('/tasks')
  await page.getByRole('link', { name: 'not-armed' }).waitFor()
  await page.getByLabel('Select not-armed').check()
  await page.getByLabel('Label').fill('shop')
  await page.getByLabel('Label').press('Enter')
  await page.getByRole('alert').getByText(/KEY=VALUE/).waitFor()
  await page.getByText('Nothing is listed.').waitFor()
  assert.equal(await page.getByRole('button', { name: /^Select|Cancel…/ }).count(), 0)
  await page.getByLabel('Label').fill('')
  await page.getByRole('link', { name: 'not-armed' }).waitFor()
  assert.equal(await page.getByLabel('Select not-armed').isChecked(), false)
  assert.equal(await page.getByRole('alert').count(), 0)
  await real.kit.close(page)
})

test('the queue follows what others submit', async () => {
  const page = await real.login('/queue')
  await page.getByRole('heading', { name: /^Open tasks/ }).waitFor()
  asked('queued-elsewhere', 'Does the queue follow?')
  await page.getByRole('link', { name: 'queued-elsewhere' }).waitFor()
  await real.kit.close(page)
})

test('many tasks are cancelled after a dry run that cancels none', async () => {
  const open = [1, 2, 3].map((n) => asked(`bulk-${n}`, `Number ${n}?`).task)
  const over = submit('bulk-over', [log('out', 'over')])
  real.orch('watch', over)
  const page = await real.login('/tasks?name=bulk-*')
  await page.getByRole('button', { name: 'Select all 4' }).click()
  await page.getByRole('button', { name: 'Cancel…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Nothing has happened yet').waitFor()
  await dialog.getByText('left out: it has ended').waitFor()
  const states = () => [...open, over].map((id) => read('get', id).state)
  assert.deepEqual(states(), [...open.map(() => 'AWAITING_APPROVAL'), 'DONE'])
  await dialog.getByRole('button', { name: 'Cancel 3' }).click()
  await dialog.getByText('This has happened').waitFor()
  assert.deepEqual(states(), [...open.map(() => 'CANCELLED'), 'DONE'])
  await dialog.getByRole('button', { name: 'Close' }).last().click()
  await page.locator('.table li', { hasText: 'bulk-1' }).getByText('Cancelled', { exact: true }).waitFor()
  await real.kit.close(page)
})

test('a viewer reads all and has no button, and the node refuses what they send', async () => {
  const { task, approval } = asked('viewed', 'May a guest decide?')
  const verbs = /^(Approve|Reject|Ask for|Cancel|Pause|Resume|Retry|Redrive|Fork|Undo|Select all)\b/
  const page = await as('guest', '/inbox')
  for (const path of ['/inbox', `/inbox/${approval}`, '/tasks', `/tasks/${task}`, `/tasks/${task}?step=ask`, '/queue', '/sessions', '/node']) {
    await real.kit.show(page, path)
    await settled(page)
    await page.getByText('user:guest · viewer').waitFor()
    assert.deepEqual((await page.getByRole('button').allTextContents()).filter((name) => verbs.test(name)), [], path)
    assert.equal(await page.getByRole('checkbox', { name: /^Select/ }).count(), 0, path)
  }
  await real.kit.show(page, `/inbox/${approval}`)
  await page.getByText('May a guest decide?').first().waitFor()
  await page.getByText('Your role is viewer').waitFor()
  const status = await page.evaluate(async (id) => {
    const headers = { 'Content-Type': 'application/json', 'X-Orch-Request': '1' }
    return (await fetch(`/api/v1/approvals/${id}/decide`, { method: 'POST', headers, body: '{"as":"granted"}' })).status
  }, approval)
  assert.equal(status, 403)
  assert.equal(read('approvals', approval).status, 'pending')
  await real.kit.close(page)
})

test('a submitter sees and cancels own tasks, and has no button that the node would refuse', async () => {
  const others = asked('of-others', 'Is this for a submitter?')
  const page = await as('ada', '/tasks')
  await page.getByText('user:ada · submitter').waitFor()
  const task = await page.evaluate(async () => {
    const headers = { 'Content-Type': 'application/json', 'X-Orch-Request': '1' }
    const plan = { orch: 'v1', name: 'by-ada', steps: [{ id: 'ask', approve: { description: 'May ada ship it?' } }] }
    return (await (await fetch('/api/v1/tasks', { method: 'POST', headers, body: JSON.stringify({ plan }) })).json()).id
  })
  const approval = real.orch('approvals', task, '-o', 'name')
  const refused = /^(Approve|Reject|Ask for|Pause|Resume|Retry|Redrive|Fork|Undo)\b/
  for (const path of ['/inbox', `/inbox/${approval}`, '/tasks', `/tasks/${task}`, `/tasks/${task}?step=ask`, '/sessions', '/node']) {
    await real.kit.show(page, path)
    await settled(page)
    await page.getByText('user:ada · submitter').waitFor()
    assert.deepEqual((await page.getByRole('button').allTextContents()).filter((name) => refused.test(name)), [], path)
    assert.equal(await page.getByRole('alert').count(), 0, path)
    assert.equal(await page.getByText(others.task).count(), 0, path)
  }
  const places = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents()
  assert.deepEqual(places.filter((name) => /Queue|Agents|MCP|Policy/.test(name)), [])
  await real.kit.show(page, `/inbox/${approval}`)
  await page.getByText('Your role is submitter').waitFor()
  await real.kit.show(page, `/tasks/${task}`)
  assert.equal(await page.getByRole('link', { name: 'Export' }).count(), 0)
  await page.getByRole('button', { name: 'Cancel…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel 1' }).click()
  await page.locator('.facts-line').getByText('Cancelled').waitFor()
  assert.equal(read('get', task).state, 'CANCELLED')
  assert.equal(read('get', others.task).state, 'AWAITING_APPROVAL')
  await real.kit.close(page)
})

test('entries that need a form are left out of many approvals, and opened from there', async () => {
  const { approval } = asked('needs-form', 'Which window?', { type: 'object', required: ['window'], properties: { window: { type: 'string' } } })
  const page = await real.login('/inbox?kind=approval')
  await page.getByLabel('Select Which window?').check()
  await page.getByRole('button', { name: 'Approve…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Nothing to approve here' })
  await dialog.getByText('left out: it has a form to fill in').waitFor()
  assert.equal(await dialog.getByRole('button', { name: /^Approve/ }).count(), 0)
  await dialog.getByRole('link', { name: 'Open it' }).click()
  await page.getByRole('heading', { name: 'Which window?' }).waitFor()
  await page.getByRole('textbox', { name: /^window/ }).waitFor()
  assert.ok(page.url().includes(approval))
  await real.kit.close(page)
})

test('the preview of a fork says the same as orch fork --dry-run', async () => {
  const task = submit('origin', [log('first', 'one'), log('second', 'two', 'first'), bash('third', 'echo three', { needs: ['second'] })])
  real.orch('watch', task)
  const said = real.orch('fork', task, '--at', 'second', '--dry-run').split('\n')
  const page = await real.login(`/tasks/${task}?fork=second`)
  await page.getByText('Results before the cut are reused').waitFor()
  await page.getByText('Steps from there run again').waitFor()
  await page.getByRole('button', { name: 'Preview' }).click()
  const shown = (await page.getByRole('region', { name: 'What the fork would do' }).innerText()).replace(/\s+/g, ' ')
  assert.ok(said.length >= 3, said.join())
  for (const line of said) assert.ok(shown.includes(line.replace(/\s+/g, ' ')), `${line} is not in ${shown}`)
  await real.kit.close(page)
})

test('each attempt is a bar with its end, and the past is marked as such', async () => {
  const third = 'echo >>n; test "$(wc -l <n)" = 3'
  const task = submit('attempts', [bash('work', third, { expect: 'output.exit_code == 0', retry: { on: ['unexpected'], max_attempts: 3, initial: '10ms' } })])
  real.orch('watch', task)
  const page = await real.login(`/tasks/${task}`)
  await page.getByRole('button', { name: /^work\s*, Succeeded, 3 attempts/ }).waitFor()
  const bars = await page.locator('.track .bar.running').evaluateAll((all) => all.map((b) => b.title.replace(/: .*/, '')))
  assert.equal(bars.length, 3)
  assert.deepEqual(bars.map((b) => /attempt (\d)/.exec(b)?.[1]), ['1', '2', '3'])
  assert.deepEqual(bars.map((b) => /failed/i.test(b)), [true, true, false])
  const { rev } = read('get', task)
  const said = /([\d.]+ *\w+) +attempt 3/.exec(real.orch('get', task))?.[1]
  assert.equal(await page.locator('.took').innerText(), said, 'the page and the command say the same time')
  await page.getByRole('slider', { name: 'Revision' }).fill('3')
  await page.locator('.heading').getByText(`at revision 3 of ${rev}`).waitFor()
  assert.equal(await page.locator('main').getByText('Done', { exact: true }).count(), 0)
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.locator('.facts-line').getByText('Done').waitFor()
  await real.kit.close(page)
})

test('an unknown id leads to the task by its name', async () => {
  const task = submit('lost-and-found', [log('out', 'here')])
  const page = await real.login(`/tasks/${task.slice(0, -4)}0000`)
  await page.getByRole('heading', { name: 'There is no such task' }).waitFor()
  await page.getByLabel('Find it by its name').fill('lost')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByRole('link', { name: 'lost-and-found' }).click()
  await page.waitForURL(new RegExp(task))
  await real.kit.close(page)
})

test('a link that has expired says so, and logs nobody in', async () => {
  const page = await real.kit.open('/nowhere')
  await page.waitForFunction((until) => Date.now() > until, early.until, { timeout: 70_000, polling: 500 })
  const answer = await page.goto(early.link)
  assert.equal(answer.status(), 410)
  await page.getByRole('heading', { name: 'The link was used, or has expired' }).waitFor()
  assert.deepEqual(await page.context().cookies(), [])
  await page.goto(`${real.kit.origin}/ui/tasks`)
  await page.getByRole('heading', { name: 'You are not signed in' }).waitFor()
  await real.kit.close(page)
})
