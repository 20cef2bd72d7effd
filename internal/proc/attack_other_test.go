//go:build unix && !linux

package proc_test

// attacked tries nothing: there is no sandbox to attack.
func attacked() (tried bool, code int) { return false, 0 }
