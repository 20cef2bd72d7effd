//go:build !linux

package node

// dropProgram does nothing: elsewhere there is no simple way to know which pages are those of the file.
func dropProgram() {}
