package shell

import (
	"strings"
)

// Metadata reports whether a path is in a .git folder (of a repository) or a .orch folder (of a node).
func Metadata(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, ".orch") {
			return true
		}
	}
	return false
}

// Within reports whether name is dir or below it. Both must be clean and absolute. It returns false for an empty dir.
func Within(name, dir string) bool {
	if dir == "" {
		return false
	}
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}
