// The workspaces of the mock: the same tree for every task with a workspace.

const at = new Date(Date.now() - 600_000).toISOString()
const hostileName = '<img src=x onerror=alert(1)>\u202Egnp.exe\u200B\u001B[31m.txt'
const long = Array.from({ length: 4000 }, (_, i) => `line ${i + 1}: compiled package ${i % 97}`).join('\n') + '\n'

/** tree maps paths to texts of files; null is a folder, an object anything else. */
const tree = {
  'CHECKPOINTS.md': '# Checkpoints\n',
  'PROGRESS.md': '# Progress\n\n- build: BASH_EXECUTE succeeded\n',
  outputs: null,
  'outputs/report.md': '# Report\n\n3 warnings.\n',
  'outputs/image.png': { kind: 'file', size: 48_213, binary: true },
  temp: null,
  workspace: null,
  'workspace/.env': { kind: 'file', size: 61, closed: 'SECRET_FILE' },
  'workspace/build.log': long,
  'workspace/empty.txt': '',
  'workspace/latest': { kind: 'link', target: '/etc/passwd' },
  'workspace/pipe': { kind: 'other' },
  'workspace/src': null,
  'workspace/src/main.go': 'package main\n\nfunc main() {}\n',
}
const evil = { workspace: null, [`workspace/${hostileName}`]: `<script>alert(1)</script>\u001B]0;owned\u0007\u202Etxt.exe\ntoken: [REDACTED:github_pat]\n` }

class Refusal extends Error {
  constructor(status, code, message, more) {
    super(message)
    Object.assign(this, { status, code, more })
  }
}

function treeOf(view) {
  if (view.imported) throw new Refusal(409, 'STATE_NOT_ALLOWED', `task ${view.id} was imported, and its files are where it ran`, { reason: 'IMPORTED', field: 'id' })
  if (view.name.includes('<img')) return evil
  if (!view.steps.some((s) => s.attempt)) throw new Refusal(404, 'NOT_FOUND', 'the task has no workspace: none of its calls has needed one so far', { reason: 'NO_WORKSPACE', field: 'id' })
  return tree
}

const parent = (path) => path.slice(0, Math.max(0, path.lastIndexOf('/')))

function view(path, file) {
  if (file === null) return { path, kind: 'folder', modified: at }
  if (typeof file === 'string') return { path, kind: 'file', size: file.length, modified: at }
  return { path, modified: at, ...file, binary: undefined }
}

/** files lists a folder. */
export function files(task, q) {
  const path = q.get('path') ?? ''
  const limit = Number(q.get('limit') ?? 200)
  const from = Number(q.get('cursor') ?? 0)
  const all = Object.entries(treeOf(task)).filter(([p]) => parent(p) === path).map(([p, f]) => view(p, f)).sort((a, b) => (a.path < b.path ? -1 : 1))
  return { task: task.id, dir: `/srv/Working/${task.id}`, path, files: all.slice(from, from + limit), next: from + limit < all.length ? String(from + limit) : undefined }
}

/** file reads a part of a file. */
export function file(task, path, q) {
  const found = treeOf(task)[path]
  if (found === undefined) throw new Refusal(404, 'NOT_FOUND', `${path} does not exist`, { field: 'path' })
  const offset = Number(q.get('offset') ?? 0)
  const limit = Number(q.get('limit') ?? 262_144)
  if (typeof found !== 'string') return { task: task.id, path, size: found.size, modified: at, offset, binary: true, data: 'iVBORw0KGgo=', next: limit < found.size ? limit : undefined }
  const end = Math.min(found.length, offset + limit)
  return { task: task.id, path, size: found.length, modified: at, offset, text: found.slice(offset, end), next: end < found.length ? end : undefined, redacted: found.includes('[REDACTED') ? 1 : undefined }
}
