package forge

import (
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

const (
	// The maximum lengths in bytes. Owners and repositories of GitHub are shorter; a path in git may be that long.
	maxName = 100
	maxRef  = 255
	maxPath = 4096
)

// checkRepository checks the owner and name of a repository, which become part of a URL.
func checkRepository(owner, repo string) error {
	if err := checkName("owner", owner, `^[a-zA-Z0-9-]+$`); err != nil {
		return err
	}
	if err := checkName("repo", repo, `^[a-zA-Z0-9-_.]+$`); err != nil {
		return err
	}
	if repo == "." || repo == ".." {
		return fault.New(fault.InvalidFormat, "is not a valid repository name").WithField("repo")
	}
	return nil
}

// checkName checks a name against a pattern and the maximum length.
func checkName(field, name, pattern string) error {
	switch {
	case !regexp.MustCompile(pattern).MatchString(name):
		return fault.New(fault.InvalidFormat, "must match the pattern %s", pattern).WithField(field)
	case len(name) > maxName:
		return tooLong(field, maxName)
	default:
		return nil
	}
}

// checkRef checks the name of a branch, a tag or a commit. It applies the rules of git-check-ref-format that separate
// the name from the rest of a URL.
func checkRef(field, name string) error {
	switch {
	case len(name) > maxRef:
		return tooLong(field, maxRef)
	case name == "", strings.ContainsAny(name, " ~^:?*[\\"), strings.Contains(name, ".."), strings.Contains("/"+name+"/", "//"), hasControl(name):
		return fault.New(fault.InvalidFormat, "is not a valid name of a branch, a tag or a commit").WithField(field)
	default:
		return nil
	}
}

// checkPath checks a path within a repository.
func checkPath(path string) error {
	if len(path) > maxPath {
		return tooLong("path", maxPath)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || hasControl(part) {
			return fault.New(fault.InvalidFormat, "is not a valid path within a repository").WithField("path").WithReason("INVALID_PATH").
				WithHint("write it as docs/readme.md, without a slash before and after it")
		}
	}
	return nil
}

// hasControl reports whether a text contains control characters.
func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func tooLong(field string, limit int) error {
	return fault.New(fault.ValidationError, "must have at most %d bytes", limit).WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
}
