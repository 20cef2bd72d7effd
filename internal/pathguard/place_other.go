//go:build !linux

package pathguard

import "os"

// place returns "": the system does not tell where an open directory lies.
func place(*os.Root) string { return "" }

// placeOf is place for a file.
func placeOf(*os.File) string { return "" }
