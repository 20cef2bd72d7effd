// Parameters of an address with values that do not exist; without a document.

/** Wrong is a parameter of an address that selects nothing that exists, and why. */
export interface Wrong { param: string; value: string; why: string }

/** unknownIn returns the values of an address that are not among those of their parameters. */
export function unknownIn(q: URLSearchParams, known: Record<string, readonly string[]>): Wrong[] {
  return Object.entries(known).flatMap(([param, values]) =>
    q.getAll(param).filter((v) => v !== '' && !values.includes(v)).map((value) => ({ param, value, why: `${param} ${value} does not exist; one of ${values.join(', ')}` })))
}

/** wrongPlace returns what an address says of a task that it does not have: a revision, or a step. steps are undefined until they are known. */
export function wrongPlace(q: URLSearchParams, last: number, steps: ReadonlySet<string> | undefined): Wrong[] {
  const rev = q.get('rev') ?? ''
  const step = q.get('step') ?? ''
  const exists = /^[1-9]\d*$/.test(rev) && Number(rev) <= last
  return [
    ...(rev === '' || exists ? [] : [{ param: 'rev', value: rev, why: `revision ${rev} does not exist; the newest, ${last}, is shown` }]),
    ...(step === '' || !steps || steps.has(step) ? [] : [{ param: 'step', value: step, why: `step ${step} does not exist in this task` }]),
  ]
}
