// The time of the node. Ages and deadlines are about its clock, and that of the browser may be wrong.

/** skew is how far the clock of the node is ahead of that of the browser, in milliseconds. */
let skew = 0

/** known is set once an answer has told the time of the node. */
let known = false

/** least is the smallest difference that counts, because the header has whole seconds; slowest is the slowest answer that tells of one. */
const [least, slowest] = [2000, 5000]

/** nodeTime returns the time of the node, in milliseconds. */
export const nodeTime = (): number => Date.now() + skew

/** timeIsKnown reports whether an answer has told the time of the node. */
export const timeIsKnown = (): boolean => known

/** learned is called when an answer has told the time of the node. */
let learned = (): void => {}

/** onTime sets what is called when an answer has told the time of the node, before anything in that answer is shown. */
export function onTime(call: () => void): void { learned = call }

/** learnTime compares the header Date of an answer with the times of the browser at which it was asked for and came. */
export function learnTime(date: string | null, asked: number, came: number): void {
  const at = Date.parse(date ?? '') + 500
  if (!Number.isFinite(at) || came - asked > slowest) return
  known = true
  const ahead = at - (asked + came) / 2
  if (Math.abs(ahead - skew) >= least) skew = Math.abs(ahead) < least ? 0 : ahead
  learned()
}
