//go:build linux && !amd64

package proc

// oldMetadataCalls returns nil: this architecture does not have the old system calls.
func oldMetadataCalls() map[uint32]metadataCall { return nil }
