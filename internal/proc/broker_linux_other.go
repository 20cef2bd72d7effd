//go:build linux && !amd64

package proc

// oldMetadataCalls are those that this machine does not have.
func oldMetadataCalls() map[uint32]metadataCall { return nil }
