package patch

import (
	"slices"
	"strconv"
	"strings"
)

// parser parses the lines of a patch.
type parser struct {
	lines []string
	// next is the index of the next line. first is the number of the first line of the patch in the original text.
	next, first int
}

// newParser splits text into lines, and removes surrounding blank lines and a code fence.
func newParser(text string) (*parser, error) {
	p := &parser{lines: slices.Collect(strings.Lines(text)), first: 1}
	for len(p.lines) > 0 && blank(p.lines[0]) {
		p.lines, p.first = p.lines[1:], p.first+1
	}
	if n := len(p.lines); n > 0 {
		p.lines[n-1] = strings.TrimSuffix(p.lines[n-1], "\n") + "\n"
	}
	if len(p.lines) == 0 {
		return nil, failed("the patch is empty")
	}
	mark, length := fence(p.lines[0])
	if length == 0 {
		return p, nil
	}
	last := len(p.lines) - 1
	for blank(p.lines[last]) {
		last--
	}
	closing, n := fence(p.lines[last])
	if last == 0 || closing != mark || n < length || len(strings.TrimRight(p.lines[last], " \t\r\n")) != n {
		return nil, failed("the code fence of line %d is not closed at the end", p.first)
	}
	p.lines, p.first = p.lines[1:last], p.first+1
	return p, nil
}

// fence returns the character and the length of a code fence at the beginning of a line.
func fence(text string) (mark byte, length int) {
	if !strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") {
		return 0, 0
	}
	return text[0], len(text) - len(strings.TrimLeft(text, text[:1]))
}

// dropCR removes the CR from all lines if every line has one, and reports whether it did. The last line need not have a
// CR: editors remove it together with the final LF.
func (p *parser) dropCR() bool {
	for i, text := range p.lines {
		if !strings.HasSuffix(text, "\r\n") && i < len(p.lines)-1 {
			return false
		}
	}
	if len(p.lines) < 2 {
		return false
	}
	for i, text := range p.lines {
		p.lines[i] = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") + "\n"
	}
	return true
}

// number returns the number of the next line in the original text.
func (p *parser) number() int { return p.first + p.next }

// peek returns the next line, or "" at the end.
func (p *parser) peek() string {
	if p.next >= len(p.lines) {
		return ""
	}
	return p.lines[p.next]
}

// atHunk reports whether the next line is a hunk header.
func (p *parser) atHunk() bool { return strings.HasPrefix(p.peek(), "@@ ") }

// expectEnd returns an error unless all remaining lines are blank.
func (p *parser) expectEnd() error {
	for ; p.next < len(p.lines); p.next++ {
		switch text := p.peek(); {
		case blank(text):
		case startsFile(text):
			return failed("a second file begins at line %d; a patch is for one file", p.number())
		default:
			return failed("line %d belongs to no hunk; check the line counts in the hunk headers", p.number())
		}
	}
	return nil
}

// startsFile reports whether a line begins the part of a patch for another file.
func startsFile(text string) bool {
	return slices.ContainsFunc([]string{"--- ", "diff ", "Index: "}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// hunk parses a hunk with its header.
func (p *parser) hunk() (hunk, error) {
	h := hunk{number: p.number()}
	from, to, ok := ranges(p.peek())
	if !ok {
		return h, failed("line %d is not a hunk header such as @@ -1,3 +1,4 @@", h.number)
	}
	if h.at = from.start; from.count > 0 {
		h.at--
	}
	p.next++
	old, added := side{remaining: from.count}, side{remaining: to.count}
	for old.remaining > 0 || added.remaining > 0 {
		l, ok := p.line()
		if !ok {
			return h, failed("line %d does not begin with ' ', '-', '+' or '\\', or the counts in the header of line %d are wrong", p.number()-1, h.number)
		}
		if (l.op != '+' && !old.count(l.text)) || (l.op != '-' && !added.count(l.text)) {
			return h, failed("the hunk at line %d has different line counts than its header", h.number)
		}
		h.lines = append(h.lines, l)
	}
	if !slices.ContainsFunc(h.lines, func(l line) bool { return l.op != ' ' }) {
		return h, failed("the hunk at line %d changes nothing", h.number)
	}
	return h, nil
}

// side counts the lines that a hunk still has for one of the two files.
type side struct {
	remaining int
	// ended is true after a line without line feed: it must be the last line of its file.
	ended bool
}

// count counts a line. It returns false if the header allows no more lines, or the file has ended.
func (s *side) count(text string) bool {
	if s.remaining == 0 || s.ended {
		return false
	}
	s.remaining--
	s.ended = !strings.HasSuffix(text, "\n")
	return true
}

// line parses a line of a hunk. A following line "\ No newline at end of file" is consumed, too.
func (p *parser) line() (line, bool) {
	text := p.peek()
	p.next++
	var l line
	switch {
	case text == "\n": // an empty line; an editor removed the leading space
		l = line{' ', text}
	case text != "" && strings.IndexByte(" -+", text[0]) >= 0:
		l = line{text[0], text[1:]}
	default:
		return line{}, false
	}
	if strings.HasPrefix(p.peek(), `\ `) { // the rest of this line depends on the locale
		p.next++
		l.text = strings.TrimSuffix(l.text, "\n")
	}
	return l, l.text != "" // a line is never empty without a line feed
}

// span is one side of a hunk header.
type span struct{ start, count int }

// ranges parses a hunk header: @@ -start[,count] +start[,count] @@ and any text.
func ranges(text string) (from, to span, ok bool) {
	text, ok = strings.CutPrefix(text, "@@ -")
	if !ok {
		return from, to, false
	}
	text, _, ok = strings.Cut(text, " @@")
	old, added, both := strings.Cut(text, " +")
	if !ok || !both {
		return from, to, false
	}
	from, okFrom := parseSpan(old)
	to, okTo := parseSpan(added)
	return from, to, okFrom && okTo
}

// parseSpan parses start[,count]. Line numbers begin at 1; the start of an empty span is the line before it.
func parseSpan(text string) (span, bool) {
	first, second, counted := strings.Cut(text, ",")
	if !counted {
		second = "1"
	}
	start, err := strconv.ParseUint(first, 10, 31) // ParseUint accepts no sign
	if err != nil {
		return span{}, false
	}
	count, err := strconv.ParseUint(second, 10, 31)
	return span{int(start), int(count)}, err == nil && (start > 0 || count == 0)
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
