// Makes the pictures of the README and of docs/how-to/use-the-page.md in docs/images, from a real run: orch serve in a folder of its own runs a plan, and a person
// approves it on the page. `make pictures` builds the program first.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const repository = fileURLToPath(new URL('../..', import.meta.url))
const program = process.env.ORCH ?? join(repository, 'bin/orch')
const images = join(repository, 'docs/images')
const root = mkdtempSync(join(tmpdir(), 'orch-pictures-'))
const port = 7788

const plan = `
orch: v1
name: release-notes
summary: Checks a release, writes its notes, and publishes them when somebody agrees.
labels: {team: core}
allow: {programs: ["${root}/check.sh", "${root}/publish.sh"]}
steps:
  - {id: history, tool: GREP_SEARCH, with: {pattern: release, path: "${root}"}}
  - {id: files, tool: GLOB_SEARCH, with: {pattern: "*", path: "${root}"}}
  - id: check
    needs: [history, files]
    tool: BASH_EXECUTE
    with: {command: "${root}/check.sh"}
    effect: idempotent
    expect: output.exit_code == 0
    retry: {on: [unexpected], max_attempts: 3, initial: 1s, jitter: 0}
  - {id: notes, needs: [check], tool: FILE_WRITE, with: {file_path: "\${{ task.workspace }}/notes.md", content: "# Notes of 1.4.2"}}
  - id: agree
    needs: [notes]
    approve: {description: "Publish the notes of 1.4.2?", timeout: 2h, risk: medium}
  - id: publish
    needs: [agree]
    tool: BASH_EXECUTE
    with: {command: "${root}/publish.sh"}
    expect: output.exit_code == 0
`

const orch = (...args) => execFileSync(program, ['--data-dir', join(root, 'data'), ...args], { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

function script(name, text) {
  writeFileSync(join(root, name), `#!/bin/sh\n${text}\n`)
  chmodSync(join(root, name), 0o755)
}

async function serve() {
  const node = spawn(program, ['serve', '--data-dir', join(root, 'data'), '--http', `127.0.0.1:${port}`], { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  for await (const text of node.stderr) {
    said += text
    if (said.includes('its page is at')) return node
  }
  throw new Error(said)
}

const palettes = {
  light: { back: '#ffffff', text: '#1f2328', colours: { 1: 'bold', 2: '#59636e', 31: '#c1121f', 32: '#1a7f37', 33: '#8a5a00', 34: '#0550ae', 35: '#8250df', 36: '#0e6c7c', 90: '#59636e' } },
  dark: { back: '#0d1117', text: '#e6edf3', colours: { 1: 'bold', 2: '#9198a1', 31: '#ff7b72', 32: '#3fb950', 33: '#d29922', 34: '#79c0ff', 35: '#d2a8ff', 36: '#56d4dd', 90: '#9198a1' } },
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c])

/** frame returns the last picture that a program has drawn: it moves up before each of them. */
function frame(output) {
  const last = output.split(/\x1b\[\d+A/).at(-1)
  return last.slice(0, last.search(/\n[^\n]* is AWAITING_APPROVAL after /))
}

/** terminal returns a page that shows the output of a program with its colours. */
function terminal(output, { back, text, colours }) {
  const spans = output.replaceAll('\r', '').split(/\x1b\[([\d;]*)m/).map((part, i) => {
    if (i % 2 === 0) return escaped(part.replace(/\x1b\[[\d;?]*[A-Za-z]/g, ''))
    const style = part.split(';').map((code) => colours[Number(code)]).filter(Boolean)
    return `</span><span style="${style.map((s) => (s === 'bold' ? 'font-weight:700' : `color:${s}`)).join(';')}">`
  })
  return `<body style="margin:0;background:${back};color:${text}"><pre style="margin:0;padding:20px 24px;font:14px/1.5 'DejaVu Sans Mono',monospace;display:inline-block"><span>${spans.join('')}</span></pre>`
}

const schemes = ['light', 'dark']

/** inBoth takes a picture of a page in each scheme. */
async function inBoth(page, name) {
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.screenshot({ path: join(images, `${name}-${scheme}.png`) })
  }
}

script('check.sh', 'sleep 1; [ -e "$TMPDIR/../seen" ] || [ -e seen ] || { touch seen; echo "not yet"; exit 1; }; echo ok')
script('publish.sh', 'sleep 2; echo published')
writeFileSync(join(root, 'plan.yaml'), plan)
mkdirSync(images, { recursive: true })
const node = await serve()
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
try {
  const id = orch('submit', 'plan.yaml', '-d', '-o', 'name')
  const context = await browser.newContext({ viewport: { width: 1200, height: 640 }, reducedMotion: 'reduce' })
  const page = await context.newPage()
  await page.goto(orch('ui').match(/http\S+/)[0])
  await page.getByText('Publish the notes of 1.4.2?').first().click({ timeout: 60_000 })
  await page.getByRole('heading', { name: 'Publish the notes of 1.4.2?' }).waitFor()
  await inBoth(page, 'inbox')
  const phone = await (await browser.newContext({ viewport: { width: 360, height: 640 }, reducedMotion: 'reduce' })).newPage()
  await phone.goto(orch('ui').match(/http\S+/)[0])
  await phone.getByText('Publish the notes of 1.4.2?').first().waitFor()
  await phone.screenshot({ path: join(images, 'phone.png') })
  const watch = execFileSync('script', ['-qec', `stty cols 130 rows 40; ${program} --data-dir ${join(root, 'data')} watch ${id} --timeout 1s || true`, '/dev/null'], { cwd: root, encoding: 'utf8', env: { ...process.env, TERM: 'xterm-256color', COLUMNS: '110', LINES: '40' } })
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await page.goto(`http://127.0.0.1:${port}/ui/tasks/${id}`)
  await page.getByText('The task is over: DONE').waitFor({ timeout: 60_000 })
  await inBoth(page, 'page')
  await page.goto(`http://127.0.0.1:${port}/ui/tasks/${id}?fork=notes`)
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('region', { name: 'What the fork would do' }).waitFor()
  await inBoth(page, 'fork')
  for (const scheme of schemes) {
    const shell = await browser.newPage({ viewport: { width: 1200, height: 400 } })
    await shell.setContent(terminal(frame(watch), palettes[scheme]))
    await shell.locator('pre').screenshot({ path: join(images, `watch-${scheme}.png`) })
    await shell.close()
  }
} finally {
  await browser.close()
  const ended = once(node, 'exit')
  node.kill('SIGTERM')
  await ended
  rmSync(root, { recursive: true, force: true })
}
