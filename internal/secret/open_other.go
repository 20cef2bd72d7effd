//go:build !unix

package secret

// noFollow is 0: the system has no such flags.
const noFollow = 0
