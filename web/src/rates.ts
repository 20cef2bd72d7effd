// Rates of ended tasks; without a document.

export const hour = 3600_000
export const hours = 24

/** firstHour is when the oldest of the hours up to a time begins. */
export const firstHour = (now: number): number => (Math.floor(now / hour) - hours + 1) * hour

/** hourly counts times by hour, the oldest hour first. */
export function hourly(times: number[], now: number): number[] {
  const first = firstHour(now)
  const counts = Array.from({ length: hours }, () => 0)
  for (const t of times) {
    const i = Math.floor((t - first) / hour)
    if (i >= 0 && i < hours) counts[i] = (counts[i] ?? 0) + 1
  }
  return counts
}
