// Large values, which a history has only by their references; without a document.
import type { Json } from './api.ts'
import { number, parse, record, text } from './json.ts'

/** firstPart and furtherPart are how many bytes of a large value the page reads at first, and with each further request. */
export const firstPart = 64 * 1024
export const furtherPart = 256 * 1024

/** Stored is a value outside of the history. */
export interface Stored { ref: string; size: number }

/** storedOf returns the reference that stands for a value; undefined for the value itself. */
export function storedOf(value: Json): Stored | undefined {
  const fields = record(value)
  const ref = text(fields?.['$blob'])
  return ref && fields?.['error'] === undefined ? { ref, size: number(fields?.['size']) } : undefined
}

/** beginning returns the value of JSON text whose end is missing, as far as it goes: open texts, lists and objects end there. It returns undefined if there is none. */
export function beginning(part: string): Json {
  const open: string[] = []
  let inText = false
  let safe = 0
  let safeOpen: string[] = []
  for (let i = 0; i < part.length; i++) {
    const c = part[i] ?? ''
    if (inText) {
      if (c === '\\') i++
      else if (c === '"') inText = false
    } else if (c === '"') inText = true
    else if (c === '{' || c === '[') open.push(c === '{' ? '}' : ']')
    else if (c === '}' || c === ']') open.pop()
    if (!inText && (c === ',' || c === '{' || c === '[')) { safe = c === ',' ? i : i + 1; safeOpen = [...open] }
  }
  const ends = (of: string[]): string => [...of].reverse().join('')
  const cut = part.replace(/\\(u[0-9a-f]{0,3})?$/i, '')
  return attempt((inText ? `${cut}"` : part) + ends(open)) ?? attempt(part.slice(0, safe) + ends(safeOpen))
}

function attempt(whole: string): Json {
  try {
    return parse<Json>(whole)
  } catch {
    return undefined
  }
}
