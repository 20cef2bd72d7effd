// The slots of streams that all windows of a browser share. A lock is free again as soon as its window is closed.

/** seen are the slots of windows that can be seen. Together with the one of hidden windows they leave a browser two of its six connections to the node. */
const seen = ['orch-stream-1', 'orch-stream-2', 'orch-stream-3']
const hidden = ['orch-stream-hidden']

/** slot takes a slot if there is one, and returns what frees it. A browser without locks takes any number, for windows that can be seen. */
export async function slot(): Promise<(() => void) | undefined> {
  const locks = navigator.locks as LockManager | undefined // it is missing where the address is not a secure one
  if (!locks) return document.hidden ? undefined : () => {}
  for (const name of document.hidden ? hidden : seen) {
    const free = await take(locks, name)
    if (free) return free
  }
  return undefined
}

const take = (locks: LockManager, name: string): Promise<(() => void) | undefined> =>
  new Promise((done) => {
    const hold = (lock: Lock | null) => (lock ? new Promise<void>((free) => done(free)) : done(undefined))
    locks.request(name, { ifAvailable: true }, hold).catch(() => done(undefined))
  })
