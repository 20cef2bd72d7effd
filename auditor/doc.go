// Package auditor records acts in the audit stream of a node, a journal beside the log of tasks, and reads them.
//
// An act that changes something is recorded twice: before its effect (Begin) and with its result (Pending.End). After a crash between
// the two, the act is in the stream with an unknown result. A refusal that is found before that is one entry (Refused); equal ones
// are counted together, so that nobody can fill the disk with them.
package auditor
