package proc

// Sandbox is what one child process may touch beside the programs and libraries of the system, which
// it may always read and run. The zero value is the narrowest: it reads Command.Dir, writes nowhere and
// has no network.
type Sandbox struct {
	// Read names files and folders that it may read and run, with all that is below them: absolute paths.
	Read []string
	// Write names those that it may change as well: absolute paths without a symbolic link in them.
	Write []string
	// Network lets it reach other machines and the services of this one.
	Network bool
}
