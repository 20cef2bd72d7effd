// The pages of which there are screenshots, and which axe looks at.
import { taskID } from '../../web/dev/fixtures.mjs'

export const ids = { done: taskID(10_020), failed: taskID(10_021), deploy: taskID(10_022), asks: taskID(10_023), doubt: taskID(10_024), running: taskID(10_025), hostile: taskID(10_026), review: taskID(10_027), stuck: taskID(10_028), late: taskID(10_029), long: taskID(10_040) }
export const deployApproval = `APR_${ids.deploy.slice(5)}_DEPLOYAA`
export const expiredApproval = `APR_${ids.late.slice(5)}_EXPIRED0`
export const question = `ASK_${ids.asks.slice(5)}_QUESTION`

export const places = {
  inbox: '/inbox',
  approval: `/inbox/${deployApproval}`,
  question: `/inbox/${question}`,
  expired: `/inbox/${expiredApproval}`,
  doubt: `/inbox/${ids.doubt}`,
  dead: `/inbox/${ids.failed}`,
  stuck: `/inbox/${ids.stuck}`,
  tasks: '/tasks',
  'tasks-filtered': '/tasks?state=FAILED&label=team%3Dcore',
  'task-done': `/tasks/${ids.done}`,
  'task-step': `/tasks/${ids.failed}?step=publish`,
  'task-past': `/tasks/${ids.done}?rev=8`,
  'task-graph': `/tasks/${ids.running}?tab=graph`,
  'task-events': `/tasks/${ids.done}?tab=events`,
  'task-logs': `/tasks/${ids.done}?tab=logs`,
  'task-files': `/tasks/${ids.done}?tab=files`,
  'task-file': `/tasks/${ids.done}?tab=files&file=workspace%2Fbuild.log`,
  'task-nofiles': `/tasks/${taskID(10_050)}?tab=files`,
  'task-files-hostile': `/tasks/${ids.hostile}?tab=files`,
  'task-conversation': `/tasks/${ids.review}?tab=conversation`,
  'task-conversation-past': `/tasks/${ids.review}?tab=conversation&rev=3`,
  'task-data': `/tasks/${ids.done}?tab=data`,
  'task-waits': `/tasks/${ids.deploy}`,
  'task-hostile': `/tasks/${ids.hostile}`,
  fork: `/tasks/${ids.done}?fork=8`,
  compare: `/compare?a=${ids.done}&b=${ids.failed}`,
  queue: '/queue',
  sessions: '/sessions',
  schedules: '/schedules',
  schedule: '/schedules/nightly',
  webhooks: '/webhooks',
  hook: '/webhooks/hook/deploy',
  destination: '/webhooks/destination/pager',
  agents: '/agents',
  costs: '/costs',
  'costs-label': '/costs?by=label&label=team',
  mcp: '/mcp',
  'mcp-server': '/mcp/files',
  policy: '/policy',
  audit: '/audit',
  'audit-act': '/audit?n=503',
  node: '/node',
  missing: '/nowhere',
  'missing-task': '/tasks/TASK_01M8CYRB0K003BNGMW00Z00000',
  'task-nologs': `/tasks/${taskID(10_050)}?tab=logs`,
}

export const schemes = ['light', 'dark']
export const widths = [1280, 360]
