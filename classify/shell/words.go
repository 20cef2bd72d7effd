package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is a word of a command after quote removal.
type arg struct {
	// text is the beginning of the word, as far as it is known before the command runs.
	text string
	// fixed is true when the whole word is known. A file name pattern counts as fixed.
	fixed bool
	// safe is true for a computed word that certainly expands to one word that is not an option.
	safe bool
	// one is true for a word that certainly expands to one word. number is true for a word that is certainly a number.
	one, number bool
}

// shown returns the word for a message, with … for its unknown end.
func (a arg) shown() string {
	if !a.fixed {
		return a.text + "…"
	}
	return a.text
}

// option reports whether the word is an option.
func (a arg) option() bool { return strings.HasPrefix(a.text, "-") && a.text != "-" }

func (k *checker) args(words []*syntax.Word) []arg {
	args := make([]arg, len(words))
	for i, w := range words {
		args[i] = k.arg(w)
	}
	return args
}

// arg evaluates a word.
func (k *checker) arg(w *syntax.Word) arg {
	if w == nil {
		return arg{}
	}
	r := wordReader{fixed: true, quoted: true}
	for _, part := range w.Parts {
		r.part(part)
	}
	if glob := k.pattern(w); glob && r.text.Len() > 0 && strings.ContainsAny(r.text.String()[:1], "*?[-+@!") {
		return arg{} // the files that match the pattern may have names of options
	}
	number := len(w.Parts) == 1 && k.isNumericPart(w.Parts[0])
	return arg{text: r.text.String(), fixed: r.fixed, one: r.quoted, number: number, safe: !r.fixed && r.quoted && r.text.Len() > 0 && !strings.HasPrefix(r.text.String(), "-")}
}

// pattern reports whether a word is a file name pattern.
func (k *checker) pattern(w *syntax.Word) bool {
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if _, ext := part.(*syntax.ExtGlob); ext || ok && (strings.ContainsAny(lit.Value, "*?") || strings.Contains(lit.Value, "[") && strings.Contains(lit.Value, "]")) {
			return true
		}
	}
	return false
}

// wordReader collects the known beginning of a word.
type wordReader struct {
	text          strings.Builder
	fixed, quoted bool
}

func (r *wordReader) add(s string) {
	if r.fixed {
		r.text.WriteString(s)
	}
}

// part adds a part of a word.
func (r *wordReader) part(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		if open := strings.Index(p.Value, "{"); open >= 0 && strings.Contains(p.Value[open:], ",") || strings.Contains(p.Value, "..}") {
			r.fixed, r.quoted = false, false // a brace expansion to several words
		}
		if strings.Contains(p.Value, "{") && strings.Contains(p.Value, "..") && strings.Contains(p.Value, "}") {
			r.fixed, r.quoted = false, false
		}
		r.add(unescape(p.Value, ""))
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			r.fixed = false
		}
		r.add(p.Value)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				r.add(unescape(lit.Value, "$`\"\\\n"))
			} else {
				r.fixed = false
			}
		}
	case *syntax.ProcSubst:
		r.add("/dev/fd/")
		r.fixed = false
	default:
		r.fixed, r.quoted = false, false
	}
}

// unescape removes the backslashes before the characters in only, or before all characters if only is empty.
func unescape(s, only string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
