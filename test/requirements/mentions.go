package requirements

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Mention is an occurrence of an id in a text.
type Mention struct {
	ID string
	// Offset is its position in bytes. For an id inside a range it is the position of the last id of the range.
	Offset int
}

var (
	// idPattern matches anything that looks like an id, even of an unknown kind. Callers must also check the preceding
	// text with prefixed.
	idPattern = regexp.MustCompile(`[A-Z]{1,2}[0-9]?-[A-Z]?[0-9]{1,3}\b`)
	// rangePattern matches the text between the two ids of a range. The text may contain the beginning of a comment
	// line.
	rangePattern = regexp.MustCompile(`^\s*(?:to|…)\s+(?://\s*)?$|^…$`)
)

// Mentions returns the ids in a text. For a range such as "X-02 to X-05" it also returns the known ids between the two.
func Mentions(text string, known []string) []Mention {
	var mentions []Mention
	last, end := "", 0
	for _, at := range idPattern.FindAllStringIndex(text, -1) {
		if prefixed(text[:at[0]]) {
			continue
		}
		id := text[at[0]:at[1]]
		if last != "" && kind(last) == kind(id) && rangePattern.MatchString(text[end:at[0]]) {
			for _, inside := range known {
				if kind(inside) == kind(id) && last < inside && inside < id {
					mentions = append(mentions, Mention{inside, at[0]})
				}
			}
		}
		mentions = append(mentions, Mention{id, at[0]})
		last, end = id, at[1]
	}
	return mentions
}

// prefixed reports whether an id directly after the text before is not an id: it is the end of a longer word, or part
// of a character class such as [A-Z0-9].
func prefixed(before string) bool {
	if before == "" {
		return false
	}
	c := before[len(before)-1]
	return c == '-' || c == '[' || c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// Files calls visit with each file below root that may mention ids: Go files, documentation, scripts, settings and test
// stories.
func Files(root fs.FS, visit func(name, text string) error) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !slices.Contains(extensions(), path.Ext(name)):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return visit(name, string(text))
	})
}

func extensions() []string {
	return []string{"", ".go", ".md", ".mjs", ".sh", ".txt", ".txtar", ".yaml", ".yml"}
}

// skipped reports whether a folder is skipped because it contains no source files of this module.
func skipped(dir string) bool {
	base := path.Base(dir)
	hidden := dir != "." && base != ".ci" && strings.HasPrefix(base, ".")
	return hidden || dir == "Working" || dir == "bin" || base == "node_modules"
}
