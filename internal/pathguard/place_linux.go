package pathguard

import (
	"os"
	"strconv"
)

// place returns where an open directory lies now, "" when the system does not tell.
func place(dir *os.Root) string {
	f, err := dir.Open(".")
	if err != nil {
		return ""
	}
	defer f.Close()
	return placeOf(f)
}

// placeOf is place for a file.
func placeOf(f *os.File) string {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return ""
	}
	return path
}
