// The parts in which long texts of one kind differ, so that a short row tells them apart; without a document.

/** longest is how long a row may be beside its name. */
export const longest = 32

/** differing returns of each text the part in which it differs from the others, with the word before it. What is left out is an ellipsis. */
export function differing(texts: string[]): string[] {
  const out = new Map<string, string>()
  cut([...new Set(texts)], out)
  return texts.map((t) => out.get(t) ?? t)
}

/** cut notes the parts of texts that all differ. Those whose parts look the same are compared among themselves. */
function cut(texts: string[], out: Map<string, string>): void {
  const start = common(texts, (t, i) => t.charCodeAt(i))
  const end = common(texts.map((t) => t.slice(start)), (t, i) => t.charCodeAt(t.length - 1 - i))
  for (const group of alike(texts, (t) => part(t, start, end))) {
    if (group.length > 1 && group.length < texts.length) cut(group, out)
    else for (const t of group) out.set(t, part(t, start, end))
  }
}

/** common returns how many characters texts share, counted by at. */
function common(texts: string[], at: (t: string, i: number) => number): number {
  const first = texts[0] ?? ''
  let n = 0
  while (n < first.length && texts.every((t) => n < t.length && at(t, n) === at(first, n))) n++
  return n
}

const wordBefore = /((?<!\S)\S{1,8}\s)?\S{0,10}$/u
const restOfWord = /^[^\s,]{0,12}/u

/** part returns a text without all but the nearest of what it shares with others: so many characters at its start, and at its end. */
function part(t: string, start: number, end: number): string {
  const [from, to] = [whole(t, start, -1), whole(t, t.length - end, 1)]
  const before = wordBefore.exec(t.slice(0, from))?.[0] ?? ''
  const rest = restOfWord.exec(t.slice(to))?.[0] ?? ''
  const all = [...`${before.length < from ? '…' : ''}${before}${t.slice(from, to)}${rest}`]
  const short = all.slice(0, longest - 1).join('').trimEnd()
  return all.length > longest || to + rest.length < t.length ? `${short}…` : all.join('')
}

/** whole moves a place in a text by a step if it is within a pair of surrogates. */
const whole = (t: string, i: number, step: number): number => (/^[\uDC00-\uDFFF]/.test(t.slice(i, i + 1)) ? i + step : i)

/** alike returns the groups of those with the same key. */
export function alike<T>(all: T[], key: (of: T) => string): T[][] {
  const by = new Map<string, T[]>()
  for (const one of all) {
    const group = by.get(key(one))
    if (group) group.push(one)
    else by.set(key(one), [one])
  }
  return [...by.values()]
}
