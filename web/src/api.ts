// The JSON types of the HTTP API, as package api defines them. Times are RFC 3339, durations are nanoseconds.
export type * from './api/task.ts'
export type * from './api/conversation.ts'
export type * from './api/people.ts'
export type * from './api/node.ts'
export type * from './api/triggers.ts'
export type * from './api/costs.ts'
