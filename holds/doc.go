// Package holds keeps the legal holds of a node: tasks that no retention removes, each with who held it, when and why. They are in
// a journal of their own, so they survive a restart and are in backups. See docs/adr/0065.
package holds
