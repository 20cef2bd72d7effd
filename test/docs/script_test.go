package docs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// script is what bash runs for a page. Its parts write their output to files in dir, and how they have ended to the file ended.
type script struct {
	text strings.Builder
	// last is the end of the script: whether a command that was to run until then has failed.
	last strings.Builder
	dir  string
	// replace puts the addresses of this test in place of those that pages show.
	replace *strings.Replacer
	parts   []part
}

// part is a part of a script: a unit of the page, or commands of the directions.
type part struct {
	// what says what it is, line where the page has it.
	what string
	line int
	text string
	// code is the exit code that it has to end with.
	code int
	// beside is set for a command during which other parts run.
	beside bool
}

// write returns the script for the acts of a page.
func write(dir string, d directions, acts []act, replace *strings.Replacer) (*script, []int, error) {
	s := &script{dir: dir, replace: replace}
	s.text.WriteString("source \"$PRELUDE\"\n")
	s.own("the set-up", 0, d.Setup)
	outputs := make([]int, len(acts))
	for i, a := range acts {
		outputs[i] = -1
		if a.LeftOut != "" {
			continue
		}
		s.own("before", a.line, a.Before)
		at, err := s.act(d, a)
		if err != nil {
			return nil, nil, err
		}
		outputs[i] = at
		s.own("after", a.line, a.After)
	}
	s.text.WriteString(s.last.String())
	return s, outputs, nil
}

// failed returns the number of the part with which a script has ended too early, or -1: the first one that has not ended as it should,
// and of those beside others only if all others have.
func (s *script) failed(ended []string) int {
	beside := -1
	for i, p := range s.parts {
		switch {
		case slices.Contains(ended, fmt.Sprintf("%d %d", i, p.code)):
		case !p.beside:
			return i
		case beside < 0:
			beside = i
		}
	}
	return beside
}

// act adds a unit to the script, and returns the number of its part, or -1.
func (s *script) act(d directions, a act) (int, error) {
	switch a.kind {
	case file:
		text := a.Head + s.replace.Replace(fill(a.text, a.Values))
		copied := filepath.Join(s.dir, "file."+strconv.Itoa(a.line))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return -1, err
		}
		name := strings.Replace(a.name, "~/", "$HOME/", 1)
		s.own("the file "+a.name, a.line, fmt.Sprintf("install -D -m 600 %q %q\n", copied, name))
		return -1, nil
	case shown:
		if a.From == "" {
			return -1, nil
		}
		return s.add(part{what: "what gives the output", line: a.line, text: a.From, code: a.Fails}, "/dev/null")
	case command, other:
	}
	values := maps.Clone(d.Values)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, a.Values)
	p := part{what: "the command", line: a.line, text: s.replace.Replace(fill(a.text, values)), code: a.Fails}
	if a.Terminal {
		typed := filepath.Join(s.dir, "terminal."+strconv.Itoa(a.line))
		if err := os.WriteFile(typed, []byte(p.text), 0o600); err != nil {
			return -1, err
		}
		p.text = fmt.Sprintf("script -qec 'bash %s' /dev/null", typed)
	}
	if a.Meanwhile != "" || a.Background {
		return s.beside(p, a)
	}
	input := "/dev/null"
	if a.Input != "" {
		input = filepath.Join(s.dir, "input."+strconv.Itoa(a.line))
		if err := os.WriteFile(input, []byte(a.Input), 0o600); err != nil {
			return -1, err
		}
	}
	return s.add(p, input)
}

// own adds commands of the directions, which end with the first one that fails.
func (s *script) own(what string, line int, text string) {
	if text == "" {
		return
	}
	_, _ = s.add(part{what: what, line: line, text: "set -e\n" + text + "\nset +e\n"}, "/dev/null") // fails for no input
}

// add adds a part to the script, which ends if the part does not end as it has to.
func (s *script) add(p part, input string) (int, error) {
	n := len(s.parts)
	s.parts = append(s.parts, p)
	fmt.Fprintf(&s.text, "{\n%s\n} >%q 2>&1 <%q\nended %d $? %d\n", p.text, s.output(n), input, n, p.code)
	return n, nil
}

// beside adds a command that runs while others do.
func (s *script) beside(p part, a act) (int, error) {
	n := len(s.parts)
	p.beside = true
	s.parts = append(s.parts, p)
	fmt.Fprintf(&s.text, "{\n%s\necho $? >%q.code\n} >%q 2>&1 </dev/null &\nbeside=$!; disown 2>/dev/null || :\n", p.text, s.output(n), s.output(n))
	s.own("meanwhile", a.line, a.Meanwhile)
	if a.Background {
		fmt.Fprintf(&s.last, "ended %d $(cat %q.code 2>/dev/null || echo %d) %d\n", n, s.output(n), p.code, p.code)
		return n, nil
	}
	fmt.Fprintf(&s.text, "wait_for test -s %q.code\nended %d $(cat %q.code) %d\n", s.output(n), n, s.output(n), p.code)
	return n, nil
}

// output returns the file with the output of a part.
func (s *script) output(n int) string { return filepath.Join(s.dir, "output."+strconv.Itoa(n)) }

// fill puts values in place of the placeholders of a text, the longest first.
func fill(text string, values map[string]string) string {
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(b) - len(a) })
	if len(keys) == 0 {
		return text
	}
	patterns := make([]string, len(keys))
	for i, key := range keys {
		patterns[i] = word(key)
	}
	return regexp.MustCompile(strings.Join(patterns, "|")).ReplaceAllStringFunc(text, func(found string) string { return values[found] })
}

// word returns a pattern for a text that is no part of a longer word.
func word(text string) string {
	runes := []rune(text)
	pattern := regexp.QuoteMeta(text)
	if inWord(runes[0]) {
		pattern = `\b` + pattern
	}
	if inWord(runes[len(runes)-1]) {
		pattern += `\b`
	}
	return pattern
}

func inWord(r rune) bool { return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
