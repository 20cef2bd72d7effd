const looks: Record<string, [string, string]> = { allow: ['good', 'Allow'], ask: ['person', 'Ask'], deny: ['bad', 'Deny'] }

/** Verdict shows what a policy does with a call, as a shape with its word. */
export function Verdict({ of }: { of: string }) {
  const [look, word] = looks[of] ?? ['wait', of]
  return <span class={`state ${look}`}>{word}</span>
}
