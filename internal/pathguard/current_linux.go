package pathguard

import (
	"os"
	"strconv"
)

// currentPath returns the current path of an open directory, or "" if the system does not report it.
func currentPath(dir *os.Root) string {
	f, err := dir.Open(".")
	if err != nil {
		return ""
	}
	defer f.Close()
	return currentPathOf(f)
}

// currentPathOf is currentPath for an open file.
func currentPathOf(f *os.File) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return ""
	}
	return path
}
