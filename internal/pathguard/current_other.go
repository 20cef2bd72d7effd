//go:build !linux

package pathguard

import "os"

// currentPath returns "": the system does not report the path of an open directory.
func currentPath(*os.Root) string { return "" }

// currentPathOf is currentPath for an open file.
func currentPathOf(*os.File) string { return "" }
