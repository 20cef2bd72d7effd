// Somebody looks at the files that a task has left: against the mock, and those of a real build on a real node.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { accessible, settled, start } from '../kit.mjs'
import { ids, places } from '../places.mjs'
import { Real } from '../real.mjs'

const treeOf = (page) => page.getByRole('region', { name: 'Files of the task' })
const contentOf = (page) => page.getByRole('region', { name: 'The selected file' })
const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText())

test('the tree and a file, against the mock', async (t) => {
  const kit = await start()
  t.after(() => kit.stop())
  await kit.mock('reset', { events: 0, tasks: 50 })

  await t.test('a file is opened by keyboard, and read part by part', async () => {
    const page = await kit.open(`/tasks/${ids.done}?tab=files`)
    const file = treeOf(page).getByRole('button', { name: 'build.log' })
    await file.press('Enter')
    await contentOf(page).getByText('line 1: compiled package 0').waitFor()
    assert.match(page.url(), /[?&]file=workspace%2Fbuild\.log/)
    assert.equal(await file.getAttribute('aria-pressed'), 'true')
    assert.equal(await contentOf(page).getByText('line 4000:').count(), 0)
    await contentOf(page).getByRole('button', { name: /^Next part, from 64 KiB of/ }).press('Enter')
    await contentOf(page).getByText('line 4000:').waitFor()
    assert.equal(await contentOf(page).getByRole('button', { name: /^Next part/ }).count(), 0)
    await contentOf(page).getByRole('button', { name: /Copy as command/ }).click()
    assert.equal(await clipboard(page), `orch files ${ids.done} workspace/build.log`)
    await contentOf(page).getByRole('button', { name: 'Close' }).press('Enter')
    await contentOf(page).waitFor({ state: 'detached' })
    assert.doesNotMatch(page.url(), /file=/)
    await kit.close(page)
  })

  await t.test('the address of a file in a closed folder opens the folder', async () => {
    const page = await kit.open(`/tasks/${ids.done}?tab=files&file=workspace%2Fsrc%2Fmain.go`)
    await contentOf(page).getByText('package main').waitFor()
    const folder = treeOf(page).getByRole('button', { name: 'src/' })
    assert.equal(await folder.getAttribute('aria-expanded'), 'true')
    await folder.press('Enter')
    await treeOf(page).getByRole('button', { name: 'main.go' }).waitFor({ state: 'detached' })
    await kit.close(page)
  })

  await t.test('what cannot be read says why, and has no button', async () => {
    const page = await kit.open(`/tasks/${ids.done}?tab=files`)
    await treeOf(page).getByText('a file with secrets').waitFor()
    await treeOf(page).getByText('→ /etc/passwd').waitFor()
    await treeOf(page).getByText('such as a pipe').waitFor()
    for (const name of ['.env', 'latest', 'pipe']) assert.equal(await treeOf(page).getByRole('button', { name }).count(), 0, name)
    await treeOf(page).getByRole('button', { name: 'image.png' }).click()
    await contentOf(page).getByText('This file is no text: 47 KiB.').waitFor()
    await treeOf(page).getByRole('button', { name: 'empty.txt' }).click()
    await contentOf(page).getByText('The file is empty.').waitFor()
    await kit.close(page)
  })

  await t.test('hostile names and texts are text', async () => {
    const page = await kit.open(`${places['task-files-hostile']}`)
    const file = treeOf(page).getByRole('button', { name: '<img src=x' })
    await file.click()
    await contentOf(page).getByText('<script>alert(1)</script>').waitFor()
    assert.match(await file.textContent(), /⟨U\+202E⟩gnp\.exe⟨U\+200B⟩⟨U\+001B⟩/)
    assert.match(await contentOf(page).textContent(), /U\+001B\]0;ownedU\+0007/)
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script').length), 0)
    await contentOf(page).getByText('1 secret replaced').waitFor()
    await kit.close(page)
  })

  await t.test('on a phone the file comes first, and nothing is cut off', async () => {
    const page = await kit.open(places['task-file'], { width: 360, scheme: 'dark' })
    await contentOf(page).getByText('line 1:').waitFor()
    await settled(page)
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360)
    const [content, tree] = await Promise.all([contentOf(page).boundingBox(), treeOf(page).boundingBox()])
    assert.ok(content.y < tree.y)
    await accessible(page, 'a file at 360 px')
    await kit.close(page)
  })
})

let real
before(async () => { real = await Real.start() })
after(() => real?.stop())

/** build submits a build that fails, waits for its end, and returns its id. */
function build() {
  const command = ["mkdir -p deep/er; printf 'a\\0b' > deep/er/blob.bin; printf 'A=1' > .env", "printf '\\033[31merror: no rule to make target <b>all</b>\\n' > build.log",
    "printf 'token: ghp''_4paQ9o0F4w08wzaiZk7p3fjE0ZH6lIN1s14i\\n' > ../outputs/report.txt"].join('\n')
  const steps = [{ id: 'make', tool: 'BASH_EXECUTE', with: { command } }, { id: 'check', needs: ['make'], tool: 'FILE_READ', with: { file_path: '/none' } }]
  writeFileSync(join(real.project, 'build.json'), JSON.stringify({ orch: 'v1', name: 'build', steps }))
  const task = real.orch('submit', 'build.json', '--detach', '-o', 'name')
  try { real.orch('result', task) } catch { /* it fails, as planned */ }
  assert.equal(JSON.parse(real.orch('get', task, '-o', 'json')).state, 'FAILED')
  return task
}

test('a stranger reads the log of a failed build without logging in on the machine', async () => {
  const task = build()
  const workspace = join(real.project, 'Working', task, 'workspace')
  symlinkSync('/etc/passwd', join(workspace, 'out'))
  execFileSync('mkfifo', [join(workspace, 'pipe')])
  for (let i = 0; i < 250; i++) writeFileSync(join(workspace, 'deep', `f${i}`), '')
  const page = await real.login(`/tasks/${task}`)
  await page.getByRole('link', { name: 'Files', exact: true }).click()
  await treeOf(page).getByRole('button', { name: 'build.log' }).click()
  await contentOf(page).getByText('error: no rule to make target <b>all</b>').waitFor()
  await treeOf(page).getByText('→ /etc/passwd').waitFor()
  await treeOf(page).getByText('such as a pipe').waitFor()
  await treeOf(page).getByRole('button', { name: 'report.txt' }).click()
  await contentOf(page).getByText('token: [REDACTED:').waitFor()
  await contentOf(page).getByText('1 secret replaced').waitFor()
  assert.doesNotMatch(await page.content(), /4paQ9o0F4w08/)
  await treeOf(page).getByRole('button', { name: 'deep/' }).click()
  await treeOf(page).getByRole('button', { name: 'Show more of deep' }).press('Enter')
  await treeOf(page).getByRole('button', { name: 'f99', exact: true }).waitFor()
  assert.equal(await treeOf(page).getByRole('button', { name: /^f\d+$/ }).count(), 250)
  await treeOf(page).getByRole('button', { name: 'er/' }).click()
  await treeOf(page).getByRole('button', { name: 'blob.bin' }).click()
  await contentOf(page).getByText('This file is no text: 3 B.').waitFor()
  await contentOf(page).getByRole('button', { name: /Copy as command/ }).click()
  assert.equal(real.shell(await clipboard(page)), 'a\0b')
  await page.reload()
  await settled(page)
  await accessible(page, 'files of a real task')
  await treeOf(page).getByRole('button', { name: 'er/' }).waitFor() // the address opens what leads to the file
  writeFileSync(join(workspace, 'late.txt'), 'late')
  await page.getByRole('button', { name: 'Read again' }).click()
  await treeOf(page).getByRole('button', { name: 'late.txt' }).waitFor()
  assert.equal(await treeOf(page).getByRole('button', { name: 'deep/' }).getAttribute('aria-expanded'), 'true', 'what is open stays open')
  await real.kit.close(page)
})

test('a task without files says why', async () => {
  const talks = real.orch('submit', '--tool', 'LOG_WRITE', 'level=INFO', 'message=hello', '--detach', '-o', 'name')
  const page = await real.login(`/tasks/${talks}?tab=files`)
  await page.getByText('None of its calls has needed a workspace so far.').waitFor()
  const task = build()
  const workspace = join(real.project, 'Working', task)
  rmSync(workspace, { recursive: true })
  await page.goto(`${real.kit.origin}/ui/tasks/${task}?tab=files`)
  await page.getByText('The files are not on this machine.').waitFor()
  mkdirSync(join(real.project, 'Working', 'Archive', 'Going', task), { recursive: true })
  await page.getByRole('button', { name: 'Read again' }).click()
  await page.getByText('The files were removed.').waitFor()
  await settled(page)
  await accessible(page, 'no files')
  await real.kit.close(page)
})

test('people see the files of the tasks that they see', async () => {
  const task = build()
  for (const [role, status] of [['viewer', 200], ['submitter', 404]]) {
    const token = real.orch('token', 'create', role, '--role', role)
    const page = await real.kit.open('/nowhere')
    await page.context().setExtraHTTPHeaders({ Authorization: `Bearer ${token}` })
    for (const path of ['files', 'files/workspace/build.log']) {
      const answer = await page.request.get(`${real.kit.origin}/api/v1/tasks/${task}/${path}`)
      assert.equal(answer.status(), status, `${role} ${path}`)
    }
    await page.context().close()
  }
})
