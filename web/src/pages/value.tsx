import { useEffect, useState } from 'preact/hooks'
import type { Json, ValueReply } from '../api.ts'
import { get } from '../client.ts'
import { bytes } from '../files.ts'
import { exactly } from '../json.ts'
import { announce } from '../ui/announce.tsx'
import { Command } from '../ui/copy.tsx'
import { Fields } from '../ui/json.tsx'
import { Loading, Problem } from '../ui/notice.tsx'
import { useAction } from '../ui/use.ts'
import { beginning, firstPart, furtherPart, storedOf, type Stored } from '../values.ts'

/** command reads the same on the command line; '' for none. */
interface ValueProps { task: string; value: Json; label: string; command?: string }

/** Value shows a value of a task; a large one, which the history has only by its reference, part by part. */
export function Value({ task, value, label, command = '' }: ValueProps) {
  const stored = storedOf(value)
  return stored ? <Large key={stored.ref} task={task} of={stored} label={label} command={command} /> : <Fields value={value} label={label} command={command} />
}

function Large({ task, of, label, command }: Omit<ValueProps, 'value'> & { of: Stored }) {
  const [read, setRead] = useState('')
  const [next, setNext] = useState(0)
  const action = useAction()
  const part = (offset: number, limit: number) => get<ValueReply>(`/tasks/${task}/values/${of.ref}`, { offset, limit })
  const more = (offset: number, limit: number) =>
    action.run(async () => {
      const p = await part(offset, limit)
      setRead(read + p.text)
      setNext(p.next ?? 0)
      if (offset) announce(`More of the ${label} is shown.`)
    })
  const download = () => action.run(async () => save(await rest(read, next, part), label))
  useEffect(() => { void more(0, firstPart) }, [])
  if (!read) return action.problem ? <Problem of={action.problem} /> : <Loading />
  return (
    <div class="large">
      <Fields value={next ? beginning(read) ?? read : exactly(read) ?? read} label={label} />
      <Problem of={action.problem} />
      <p class="row small">
        <span class="quiet">{next ? `The first ${bytes(next)} of ${bytes(of.size)}.` : `All ${bytes(of.size)}.`}</span>
        {next > 0 && <button type="button" disabled={action.busy} onClick={() => void more(next, furtherPart)}>Show more</button>}
        <span class="pair"><button type="button" disabled={action.busy} aria-label={`Download the ${label} as JSON`} onClick={() => void download()}>Download</button>{command && <Command text={command} />}</span>
      </p>
    </div>
  )
}

/** rest returns all of a value of which the beginning is known. */
async function rest(known: string, next: number, part: (offset: number, limit: number) => Promise<ValueReply>): Promise<string[]> {
  const all = [known]
  for (let offset = next; offset > 0;) {
    const p = await part(offset, furtherPart)
    all.push(p.text)
    offset = p.next ?? 0
  }
  return all
}

function save(parts: string[], label: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(parts, { type: 'application/json' }))
  link.download = `${label.replace(/[^\w.-]+/g, '-')}.json`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
