import type { Json } from './api.ts'

/** Exact is a number whose text has more digits than a JavaScript number can hold. */
export class Exact {
  readonly text: string
  constructor(text: string) { this.text = text }
  toJSON(): unknown { return rawJSON(this.text) }
}

const rawJSON = (text: string): unknown => (JSON as unknown as { rawJSON?: (t: string) => unknown }).rawJSON?.(text) ?? Number(text)

/** A text without such a run of digits or exponent has no number that loses digits, and needs no reviver. */
const suspicious = /\d{16}|\d\.\d{15}|[eE]\+?\d{3}/

/** parse is JSON.parse that keeps every digit of a number. */
export function parse<T>(text: string): T {
  if (!suspicious.test(text)) return JSON.parse(text) as T
  const keep = (_: string, value: unknown, context?: { source?: string }): unknown => {
    const source = context?.source
    return typeof value === 'number' && source !== undefined && loses(source, value) ? new Exact(source) : value
  }
  return JSON.parse(text, keep as (k: string, v: unknown) => unknown) as T
}

function loses(source: string, value: number): boolean {
  return String(value) !== source && digits(source).length > 15 || !Number.isFinite(value)
}

const digits = (source: string): string => source.replace(/[eE].*$/, '').replace(/\D/g, '').replace(/^0+|0+$/g, '')

/** pretty returns indented JSON. Its line breaks inside of texts stay escaped. */
export function pretty(value: Json, indent = ''): string {
  if (value instanceof Exact) return value.text
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  const deeper = indent + '  '
  const parts = Array.isArray(value)
    ? value.map((v) => pretty(v, deeper))
    : Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${pretty(v, deeper)}`)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return parts.length ? `${open}\n${deeper}${parts.join(`,\n${deeper}`)}\n${indent}${close}` : `${open}${close}`
}

/** compact returns JSON in one line. */
export const compact = (value: Json): string => pretty(value).replace(/,\n */g, ', ').replace(/\n */g, '')

/** record returns a value as an object, or undefined if it is none. */
export function record(value: Json): Record<string, Json> | undefined {
  const is = value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Exact)
  return is ? (value as Record<string, Json>) : undefined
}

/** exactly parses JSON with every digit of its numbers. It returns undefined for any other text. */
export function exactly(typed: string): Json {
  try {
    return parse<Json>(typed)
  } catch {
    return undefined
  }
}

/** text returns a value as a string, '' if it is none. */
export const text = (value: Json): string => (typeof value === 'string' ? value : '')
/** number returns a value as a number, 0 if it is none. */
export const number = (value: Json): number => (typeof value === 'number' ? value : 0)
/** texts returns the strings of a list. */
export const texts = (value: Json): string[] => (Array.isArray(value) ? value.filter((v): v is string => typeof v === 'string') : [])
