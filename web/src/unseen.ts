// Finds characters that people do not see although programs and models read them: control characters, bidi overrides,
// zero-width characters, private use. The rules are those of the command line (package internal/unseen).

const suspect = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2028\u2029\u2800]/u
const mark = /[\p{Mn}\p{Me}]/u
const joinable = /[\ufe0f\p{Mn}\p{Mc}\p{So}\p{Sk}]/u
const emojiBase = /[\p{So}\p{Sm}0-9#*‼⁉〰〽]/u
const maxMarks = 8

/** Piece is a run of visible text, or one invisible character. */
export interface Piece { text: string; hidden: boolean }

/** mayHide is a fast test: false means that the text has no invisible character. */
export const mayHide = (text: string): boolean => suspect.test(text) || /[\p{Mn}\p{Me}]{9}/u.test(text)

/** pieces splits a text into visible runs and invisible characters. */
export function pieces(text: string): Piece[] {
  if (!mayHide(text)) return [{ text, hidden: false }]
  const out: Piece[] = []
  let before = ''
  let marks = 0
  for (const char of text) {
    marks = mark.test(char) ? marks + 1 : 0
    add(out, char, marks > maxMarks || hides(before, char))
    before = char
  }
  return out
}

function add(out: Piece[], text: string, hidden: boolean): void {
  const last = out.at(-1)
  if (last && !hidden && !last.hidden) last.text += text
  else out.push({ text, hidden })
}

function hides(before: string, char: string): boolean {
  if (char === '\n' || char === '\t' || !suspect.test(char)) return false
  if (char === '\u200d') return !joinable.test(before)
  if (char === '\ufe0f') return !emojiBase.test(before)
  return true
}

/** codePoint names a character, such as U+202E. */
export const codePoint = (char: string): string => 'U+' + (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
