package patch

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// header parses the lines before the first hunk.
func (p *parser) header(d *Diff) error {
	for ; p.next < len(p.lines); p.next++ {
		text := strings.TrimRight(p.peek(), "\n")
		switch {
		case strings.HasPrefix(text, "--- "):
			return p.files(d)
		case blank(text), strings.HasPrefix(text, "index "), strings.HasPrefix(text, "==="), text == "new file mode 100644":
		case strings.HasPrefix(text, "diff "):
			if err := p.command(d, text); err != nil {
				return err
			}
		case strings.HasPrefix(text, "Index: "):
			d.names = append(d.names, text[len("Index: "):])
		default:
			return failed("line %d is not part of a unified diff of text", p.number()).
				WithHint("a patch begins with a line --- and a line +++; renames, modes and binary content are not supported")
		}
	}
	return failed("the patch has no lines --- and +++")
}

// command parses a line such as diff --git a/x b/x. It ignores names with spaces, which are ambiguous here: the names
// in the lines --- and +++ count.
func (p *parser) command(d *Diff, text string) error {
	if slices.ContainsFunc(p.lines[:p.next], func(before string) bool { return strings.HasPrefix(before, "diff ") }) {
		return failed("a second file begins at line %d; a patch is for one file", p.number())
	}
	words := strings.Fields(text)
	if len(words) != 4 || words[1] != "--git" || strings.Contains(text, `"`) {
		return nil
	}
	d.names = append(d.names, words[2:]...)
	return nil
}

// files parses the lines --- and +++.
func (p *parser) files(d *Diff) error {
	number := p.number()
	from, okFrom := fileName(p.peek(), "--- ")
	p.next++
	to, okTo := fileName(p.peek(), "+++ ")
	p.next++
	switch {
	case !okFrom || !okTo:
		return failed("lines %d and %d do not name the files as --- and +++ do", number, number+1)
	case to == devNull:
		return failed("the patch deletes the file").WithHint("use FILE_DELETE")
	case !p.atHunk():
		return failed("there is no hunk at line %d", p.number())
	}
	d.names = append(d.names, to)
	if d.create = from == devNull; !d.create && !isBackup(from, to) {
		d.names = append(d.names, from)
	}
	return nil
}

// fileName returns the name in a line that begins with the prefix. A tab ends the name. Git writes names with special
// characters as quoted C strings.
func fileName(text, prefix string) (string, bool) {
	name, ok := strings.CutPrefix(strings.TrimRight(text, "\n"), prefix)
	if !ok {
		return "", false
	}
	if strings.HasPrefix(name, `"`) {
		quoted, err := strconv.QuotedPrefix(name)
		if err != nil {
			return "", false
		}
		name, err = strconv.Unquote(quoted)
		return name, err == nil && name != ""
	}
	name, _, _ = strings.Cut(name, "\t")
	return name, name != ""
}

// isBackup reports whether from is the name of a backup copy of to.
func isBackup(from, to string) bool {
	return slices.Contains([]string{to + ".orig", to + ".old", to + ".bak", to + "~"}, from)
}

// Names returns PATCH_FAILED unless every name in the header of the patch matches one of the absolute paths of the file
// (S4-026). A name matches as a whole or as the last elements of a path, with or without a prefix such as a/ and b/.
func (d *Diff) Names(paths ...string) error {
	for _, name := range d.names {
		if !slices.ContainsFunc(paths, func(file string) bool { return matches(name, file) }) {
			return failed("the patch is for %q, which is not the file of the call", shorten(name))
		}
	}
	return nil
}

// matches reports whether a name in a header denotes the file with an absolute path.
func matches(name, file string) bool {
	if name == devNull {
		return true // from a diff --git line; the lines --- and +++ were checked
	}
	if path.IsAbs(name) {
		return path.Clean(name) == path.Clean(file)
	}
	short := name
	if len(name) > 2 && name[1] == '/' && strings.IndexByte("abciow", name[0]) >= 0 { // the prefixes of git
		short = name[2:]
	}
	return endsWith(file, name) || endsWith(file, short)
}

// endsWith reports whether the path file ends with the elements of the relative path name.
func endsWith(file, name string) bool {
	name = path.Clean(name)
	return name != "." && name != ".." && !strings.HasPrefix(name, "../") && strings.HasSuffix(file, "/"+name)
}

// shorten truncates a name for a message.
func shorten(name string) string {
	const limit = 80
	if len(name) <= limit {
		return name
	}
	return strings.ToValidUTF8(name[:limit], "") + "…"
}
