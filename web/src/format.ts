// Formats what people read. Every function is pure.

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** duration formats milliseconds with their two largest units, as the command line does: 840ms, 3.2s, 4m05s, 3h07m, 2d04h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–'
  const t = Math.max(0, ms)
  if (t < second) return `${Math.floor(t)}ms`
  if (t < minute) return `${(Math.floor(t / 100) / 10).toFixed(1)}s`
  if (t < hour) return `${Math.floor(t / minute)}m${pad((t % minute) / second)}s`
  if (t < day) return `${Math.floor(t / hour)}h${pad((t % hour) / minute)}m`
  return `${Math.floor(t / day)}d${pad((t % day) / hour)}h`
}

/** nanoseconds formats a duration of the API. */
export const nanoseconds = (ns: number): string => duration(ns / 1e6)

/** ago formats the distance of a time from now: now, 12s, 4m, 3h, 6d; with a + before it if it lies ahead. */
export function ago(at: number, now: number): string {
  const t = Math.abs(now - at)
  const sign = at > now + second ? 'in ' : ''
  if (t < 5 * second) return 'now'
  if (t < minute) return `${sign}${Math.floor(t / second)}s`
  if (t < hour) return `${sign}${Math.floor(t / minute)}m`
  if (t < day) return `${sign}${Math.floor(t / hour)}h`
  return `${sign}${Math.floor(t / day)}d`
}

/** rest formats how much time is left, in whole minutes as long as there are some: 40s, 53m, 1h59m, 2d04h. */
export function rest(ms: number): string {
  const t = Math.max(0, ms)
  if (t < minute) return `${Math.floor(t / second)}s`
  return t < hour ? `${Math.floor(t / minute)}m` : duration(t)
}

/** clock formats a time of day with milliseconds, in UTC. */
export const clock = (at: number): string => (Number.isFinite(at) ? new Date(at).toISOString().slice(11, 23) : '–')

/** moment formats a time in full, in UTC. */
export const moment = (at: string | number | undefined): string => {
  const t = typeof at === 'number' ? at : Date.parse(at ?? '')
  return Number.isFinite(t) ? new Date(t).toISOString().slice(0, 19).replace('T', ' ') + ' UTC' : '–'
}

/** count formats a number with thin spaces between thousands. */
export const count = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, '\u2009')

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** bytes formats a size: 12 bytes, 3.4 MiB. */
export function bytes(n: number): string {
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, n)) / 10)))
  return unit === 0 ? plural(n, 'byte') : `${(n / 1024 ** unit).toFixed(1)} ${units[unit]}`
}

/** dollars formats billionths of a US dollar, with at least two decimals. */
export function dollars(nano: number): string {
  const text = (nano / 1e9).toFixed(9).replace(/0{1,7}$/, '')
  return '$' + text
}

/** plural returns "1 task" or "3 tasks". */
export const plural = (n: number, word: string): string => `${count(n)} ${word}${n === 1 ? '' : 's'}`

/** entries returns "1 entry" or "3 entries". */
export const entries = (n: number): string => `${count(n)} ${n === 1 ? 'entry' : 'entries'}`

/** words makes IN_PROGRESS or in_doubt readable: In progress, In doubt. */
export function words(code: string): string {
  const text = code.toLowerCase().replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** quote makes a text one word of a shell. */
export const quote = (word: string): string => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** command joins words to a command that a shell reads back as exactly these words. */
export const command = (...parts: string[]): string => parts.map(quote).join(' ')

/** one returns where a glob goes on after the part at g if that matches a character, -1 if it does not. */
function one(glob: string, g: number, char: string): number {
  if (glob[g] === '?') return char === '/' ? -1 : g + 1
  if (glob[g] === '\\') return glob[g + 1] === char ? g + 2 : -1
  if (glob[g] !== '[') return glob[g] === char ? g + 1 : -1
  const not = glob[g + 1] === '^'
  let at = g + (not ? 2 : 1), found = false
  do {
    if (glob[at] === '\\') at++
    const low = glob[at++] ?? ''
    let high = low
    if (glob[at] === '-') {
      if (glob[++at] === '\\') at++
      high = glob[at++] ?? ''
    }
    found ||= low <= char && char <= high
  } while (at < glob.length && glob[at] !== ']')
  return found === not ? -1 : at + 1
}

/** matches reports whether a text matches a glob of the node (path.Match). It takes no longer than their lengths multiplied. */
export function matches(glob: string, text: string): boolean {
  let g = 0, t = 0, star = -1, tried = 0
  while (t < text.length) {
    const next = g >= glob.length || glob[g] === '*' ? -1 : one(glob, g, text[t]!)
    if (glob[g] === '*') {
      star = ++g
      tried = t
    } else if (next >= 0) {
      g = next
      t++
    } else if (star >= 0 && text[tried] !== '/') {
      g = star
      t = ++tried
    } else {
      return false
    }
  }
  while (glob[g] === '*') g++
  return g === glob.length
}

const pad = (n: number): string => String(Math.floor(n)).padStart(2, '0')
