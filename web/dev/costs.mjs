// What requests to models cost in the mock.

const day = 86_400_000

const keys = {
  model: ['acme/large', 'acme/small', 'local/tiny'], agent: ['review-change/review', 'triage', '<b>odd</b>'], identity: ['user:ada', 'agent:ci'], task: [],
  'label:team': ['core', 'ops', ''],
}

const sum = (n) => ({ turns: 12 * n, nano_usd: 123_456_789 * n, input: 9_000 * n, cache_read: 4_000 * n, output: 1_700 * n, ...(n % 2 ? {} : { lost: 1, lost_nano_usd: 9_000_000, lost_tokens: 12_000 }) })

/** costs answers with rows for what is asked for. A world without models has none. */
export function costs(world, q) {
  const by = q.get('by') ?? 'day'
  const since = Date.parse(q.get('since') ?? '') || Date.now() - 2 * day
  const days = Array.from({ length: Math.floor((Date.now() - since) / day) }, (_, i) => new Date(since + i * day).toISOString().slice(0, 10)).slice(-5)
  const rows = (by === 'day' ? days : keys[by] ?? []).map((key, i) => ({ key, ...sum(5 - i) }))
  const total = rows.reduce((all, r) => Object.fromEntries(Object.entries(all).map(([k, v]) => [k, v + (r[k] ?? 0)])), { turns: 0, nano_usd: 0, input: 0, cache_read: 0, output: 0, lost: 0, lost_nano_usd: 0 })
  const until = new Date((Math.floor(Date.now() / day) + 1) * day).toISOString()
  return { rows, total, budgets: [{ name: 'per day', limit: { nano_usd: 20_000_000_000 }, spent: { nano_usd: 1_700_000_000 }, held: { nano_usd: 9_000_000 }, until }, { name: 'per day of agent:ci', identity: 'agent:ci', limit: { tokens: 1_000_000 }, spent: { tokens: 1_200_000 }, until }] }
}
