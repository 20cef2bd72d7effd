// What was typed and not used yet. It stays in this tab, also when another entry is shown or the login has ended.

const prefix = 'orch.draft.'

/** draft returns what was typed under a name; '' for the name ''. */
export const draft = (name: string): string => (name && sessionStorage.getItem(prefix + name)) || ''

/** keepDraft keeps what is typed. The text '' forgets it. */
export function keepDraft(name: string, text: string): void {
  if (!name) return
  if (text) sessionStorage.setItem(prefix + name, text)
  else sessionStorage.removeItem(prefix + name)
}
