//go:build !linux

package pathguard

import "os"

// currentPath returns "": the system does not report the path of an open directory.
func currentPath(*os.Root) string { return "" }

// currentPathOf is currentPath for a file.
func currentPathOf(*os.File) string { return "" }
