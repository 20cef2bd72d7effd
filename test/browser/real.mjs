// A real node for stories: orch serve in a folder of its own. ORCH is the program, by default bin/orch of the repository.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { Kit } from './kit.mjs'

export const program = process.env.ORCH ?? fileURLToPath(new URL('../../bin/orch', import.meta.url))

/** freePort returns a port that nobody listens at now. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** realNode starts a node with flags. files are written into its project first. Its home is its folder. */
export const realNode = (files = {}, ...flags) => Real.start({}, files, ...flags)

/** Real is a node with a browser, that works in the folder project. env is added to the environment of all its programs. */
export class Real {
  static async start(env = {}, files = {}, ...flags) {
    const real = new Real()
    real.root = mkdtempSync(join(tmpdir(), 'orch-page-'))
    real.project = join(real.root, 'project')
    mkdirSync(real.project)
    real.env = { ...process.env, HOME: real.root, ...env }
    for (const [name, text] of Object.entries(files)) real.write(name, text)
    real.port = await freePort()
    await real.serve(...flags)
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
    real.kit = new Kit(`http://127.0.0.1:${real.port}`, browser)
    return real
  }

  /** write writes a file of the project. ROOT in the text is the project. */
  write(name, text) {
    const file = join(this.project, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text.replaceAll('ROOT', this.project))
  }

  /** shell runs a line as the page copies it, with this program as orch. The line says which node it means. */
  shell(line) {
    const script = `orch() { "$ORCH_PROGRAM" "$@"; }; ${line}`
    const env = { ...this.env, ORCH_PROGRAM: program }
    return execFileSync('sh', ['-c', script], { cwd: this.project, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  }

  /** orch runs a command, and returns its output. */
  orch(...args) {
    const options = { cwd: this.project, env: this.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }
    return execFileSync(program, ['--data-dir', join(this.root, 'data'), ...args], options).trim()
  }

  /** serve starts the node and waits until it serves. It goes on reading what the node says: a node whose stderr is closed ends with its next line. */
  async serve(...args) {
    const all = ['serve', '--data-dir', join(this.root, 'data'), '--http', `127.0.0.1:${this.port}`, ...args]
    this.node = spawn(program, all, { cwd: this.project, env: this.env, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    await new Promise((done) => {
      this.node.once('exit', done)
      this.node.stderr.on('data', (text) => {
        said += text
        if (said.includes('its page is at')) done()
      })
    })
    assert.match(said, /its page is at/)
  }

  /** background starts a command that goes on, and returns what ends it. */
  background(...args) {
    const child = spawn(program, ['--data-dir', join(this.root, 'data'), ...args], { cwd: this.project, env: this.env, stdio: 'ignore' })
    const ended = once(child, 'exit')
    return async () => { child.kill('SIGTERM'); await ended }
  }

  async kill(signal) {
    const ended = once(this.node, 'exit')
    this.node.kill(signal)
    await ended
  }

  /** login returns a page of a browser that followed a one-time link. args are those of orch ui. */
  async login(path = '', ...args) {
    const page = await this.kit.open('/node')
    await page.goto(this.orch('ui', ...args).match(/http\S+/)[0])
    if (path) await page.goto(`${this.kit.origin}/ui${path}`)
    return page
  }

  /** loginBeside waits until a page is signed out, and follows a one-time link in a window beside it. Then the page goes on by itself. */
  async loginBeside(page) {
    await page.getByRole('heading', { name: 'You are not signed in' }).waitFor({ timeout: 30_000 })
    const login = await page.context().newPage()
    await login.goto(this.orch('ui').match(/http\S+/)[0])
    await login.close()
    await page.getByRole('heading', { name: 'You are not signed in' }).waitFor({ state: 'detached', timeout: 30_000 })
  }

  async stop() {
    await this.kit?.browser.close()
    await this.kill('SIGKILL')
    rmSync(this.root, { recursive: true, force: true })
  }
}
