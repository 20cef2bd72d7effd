// Package audit describes the acts of people and programs at a node, and the chain of their entries.
//
// An Entry is one line of the audit stream. It contains the digest of the entry before it, so a changed, missing or moved entry
// breaks the chain. Verifier checks a chain, Export and ReadExport write and read files with whole parts of it. Package
// auditor records entries.
package audit
