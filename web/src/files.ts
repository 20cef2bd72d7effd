// The files of a task, as far as they can be told without a document.
import type { FileReply, FileView } from './api.ts'

/** pagePart is how many bytes of a file the page reads at a time. */
export const pagePart = 64 * 1024

/** fileAddress returns the address of a file below the task. */
export const fileAddress = (task: string, path: string): string => `/tasks/${task}/files/${path.split('/').map(encodeURIComponent).join('/')}`

/** nameOf returns the last name of a path. */
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** opensFor reports whether a folder is open at first: those in which results are, and those that lead to the selected file. */
export const opensFor = (folder: string, selected: string): boolean => folder === 'outputs' || folder === 'workspace' || selected.startsWith(`${folder}/`)

/** bytes formats a size: 980 B, 1.5 KiB, 12 MiB. */
export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']
  let size = n
  let unit = 0
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit++ }
  const digits = unit > 0 && size < 10 ? 1 : 0
  return `${size.toFixed(digits)} ${units[unit]}`
}

/** textOf returns the text of a part. Bytes that are no text become replacement characters. */
export function textOf(part: FileReply): string {
  const text = part.text ?? new TextDecoder().decode(Uint8Array.from(atob(part.data ?? ''), (c) => c.charCodeAt(0)))
  return text.replaceAll('\r\n', '\n')
}

const closed: Record<string, string> = {
  SECRET_FILE: 'a file with secrets, whose content is not shown',
  POLICY_DENIED: 'the policy file hides it from the calls of the task',
  NAME_NOT_UTF8: 'its name is not UTF-8, so it cannot be asked for',
}

/** whyShut says why an entry cannot be read; '' if it can. */
export function whyShut(f: FileView): string {
  if (f.closed) return closed[f.closed] ?? f.closed
  return f.kind === 'other' ? 'not a file, such as a pipe' : ''
}

/** Absence says why a task has no files to show. */
export interface Absence { title: string; text: string }

const absences: Record<string, Absence> = {
  NO_WORKSPACE: { title: 'The task has no files.', text: 'None of its calls has needed a workspace so far.' },
  WORKSPACE_REMOVED: { title: 'The files were removed.', text: 'Workspaces stay for a while after the end of their task: orch retain says how long. The history and the outputs of the task are still here.' },
  IMPORTED: { title: 'The files are where the task ran.', text: 'It was imported from another node for reading, and export files have no workspaces.' },
}

/** absenceOf explains an error that says that there is no workspace here; undefined for any other error. */
export function absenceOf(reason: string, message: string): Absence | undefined {
  return reason === 'WORKSPACE_ELSEWHERE' ? { title: 'The files are not on this machine.', text: message } : absences[reason]
}
