// Package pathguard confines every path that a tool touches to one root directory.
package pathguard

// Root is the directory that tools are confined to.
type Root struct{}
