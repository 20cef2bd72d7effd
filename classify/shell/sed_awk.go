package shell

import (
	"slices"
	"strings"
)

// sed accepts scripts that only print. It rejects -i, script files, and the commands w, W, e and r.
func sed(k *checker, c call) {
	var scripts []string
	found := false
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case !a.fixed && !a.safe:
			k.destructive("an argument of sed is computed at run time")
			return
		case a.text == "--expression" || a.option() && a.fixed && !strings.HasPrefix(a.text, "--") && strings.HasSuffix(a.text, "e") && strings.Trim(a.text, "-nErzsu") == "e":
			if i++; i < len(c.args) && c.args[i].fixed {
				scripts, found = append(scripts, c.args[i].text), true
				continue
			}
			k.destructive("a script of sed is computed at run time")
			return
		case a.fixed && strings.HasPrefix(a.text, "--expression="):
			scripts, found = append(scripts, a.text[len("--expression="):]), true
		case a.option() && !slices.Contains([]string{"--quiet", "--silent", "--regexp-extended", "--posix", "--null-data", "--version", "--"}, a.text) && (strings.HasPrefix(a.text, "--") || strings.Trim(a.text, "-nErzsu") != ""):
			k.destructive("the option " + a.text + " of sed")
			return
		case !a.option() && !found:
			if !a.fixed {
				k.destructive("a script of sed is computed at run time")
				return
			}
			scripts, found = append(scripts, a.text), true
		}
	}
	for _, s := range scripts {
		if !printsOnly(s) {
			k.destructive("the script of sed may write files or run programs")
		}
	}
}

// printsOnly parses a sed script and reports whether all of its commands are known and only print.
func printsOnly(s string) bool {
	for s != "" {
		s = strings.TrimLeft(s, " \t\n;{}!")
		var ok bool
		if s, ok = skipAddress(s); !ok {
			return false
		}
		s = strings.TrimLeft(s, " \t!")
		if s == "" {
			return true
		}
		command := s[0]
		s = s[1:]
		switch command {
		case 's', 'y':
			if s, ok = skipDelimited(s, 2); !ok {
				return false
			}
			flags := len(s) - len(strings.TrimLeft(s, "gpiImM0123456789"))
			s = s[flags:]
			if s != "" && !strings.ContainsAny(s[:1], " \t\n;}") {
				return false
			}
		case 'a', 'i', 'c', '#':
			_, s, _ = strings.Cut(s, "\n")
		case ':', 'b', 't', 'T':
			s = skipLabel(s)
		case '{':
		case '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'l', 'n', 'N', 'p', 'P', 'q', 'Q', 'x', 'z':
			s = strings.TrimLeft(s, "0123456789 ")
			if s != "" && !strings.ContainsAny(s[:1], "\n;{}") {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// skipLabel skips the blanks and the label after a command. Text after the label is the next command, even without a
// semicolon.
func skipLabel(s string) string {
	s = strings.TrimLeft(s, " \t")
	if end := strings.IndexAny(s, " \t\v\f\r;}\n"); end >= 0 {
		return s[end:]
	}
	return ""
}

// skipAddress skips the address of a command: numbers, $, /regex/ and ranges of them.
func skipAddress(s string) (string, bool) {
	for s != "" {
		switch {
		case strings.ContainsAny(s[:1], "0123456789$,~+ "):
			s = s[1:]
		case s[0] == '/':
			var ok bool
			if s, ok = skipDelimited(s, 1); !ok {
				return "", false
			}
			s = strings.TrimLeft(s, "IM")
		default:
			return s, true
		}
	}
	return s, true
}

// skipDelimited skips n parts, each of which ends with the delimiter. The first byte of s is the delimiter.
func skipDelimited(s string, n int) (string, bool) {
	if s == "" || s[0] == '\\' || s[0] == '\n' {
		return "", false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			if s[0] != '[' && strings.Contains(s[i:], "]") && strings.IndexByte(s[i:], s[0]) < strings.IndexByte(s[i:], ']') {
				return "", false // a delimiter inside brackets is ambiguous
			}
		case s[0]:
			if n--; n == 0 {
				return s[i+1:], true
			}
		}
	}
	return "", false
}

// awk accepts programs that only print. It rejects system, pipes, redirections, extensions and program files.
func awk(k *checker, c call) {
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case !a.fixed:
			k.destructive("the program of awk is computed at run time")
			return
		case a.text == "-F" || a.text == "-v":
			if i++; i < len(c.args) && !c.args[i].one {
				k.destructive("an unquoted argument of awk is computed at run time")
				return
			}
		case a.option() && !strings.HasPrefix(a.text, "-F") && a.text != "--version" && a.text != "--":
			k.destructive("the option " + a.text + " of awk")
			return
		case !a.option():
			if !awkPrints(a.text) {
				k.destructive("the program of awk may write files or run programs")
			}
			return
		}
	}
}

// awkPrints reports whether an awk program certainly runs no programs and writes no files. It accepts > only before the
// first print, where it is a comparison and not a redirection.
func awkPrints(s string) bool {
	code, plain := awkCode(s)
	if !plain {
		code = s
	}
	if strings.ContainsAny(strings.ReplaceAll(code, "||", ""), "|@`") || plain && strings.Contains(code, `\`) {
		return false
	}
	for _, word := range []string{"system", "getline", "fflush"} {
		if strings.Contains(code, word) {
			return false
		}
	}
	_, printed, _ := strings.Cut(code, "print")
	return !strings.Contains(printed, ">")
}

// awkCode returns an awk program with its strings and regular expressions replaced by "". It returns false when a slash
// is ambiguous: it may begin a regular expression or be a division.
func awkCode(s string) (string, bool) {
	var b strings.Builder
	plain := true
	last := byte('(') // the last non-blank character
	for i := 0; i < len(s); i++ {
		end := 0
		if s[i] == '"' || s[i] == '/' && strings.IndexByte("(,{;!~&|\n}", last) >= 0 {
			end = literalEnd(s, i)
		}
		if end > 0 {
			b.WriteString(`""`)
			i, last = end, '"'
			continue
		}
		plain = plain && s[i] != '/' && s[i] != '"'
		b.WriteByte(s[i])
		if s[i] != ' ' && s[i] != '\t' {
			last = s[i]
		}
	}
	return b.String(), plain
}

// literalEnd returns the offset of the delimiter that ends the literal at i. It returns 0 when the line contains no
// such delimiter. It also returns 0 when a bracket makes the end ambiguous: in some versions of awk a slash in brackets
// is a literal character.
func literalEnd(s string, i int) int {
	for j := i + 1; j < len(s) && s[j] != '\n'; j++ {
		switch s[j] {
		case '\\':
			if j++; j < len(s) && s[j] == '\n' {
				return 0
			}
		case s[i]:
			return j
		case '[':
			if s[i] != '/' {
				continue
			}
			if j = bracketEnd(s, j); j == 0 {
				return 0
			}
		}
	}
	return 0
}

// bracketEnd returns the offset of the ] that ends the bracket expression at i. It returns 0 for an expression that
// versions of awk parse differently, because it contains slashes, quotes, backslashes, or brackets that are not a class
// such as [:alpha:].
func bracketEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '/', '"', '\\', '\n':
			return 0
		case '[':
			end := strings.Index(s[j:], ":]")
			if !strings.HasPrefix(s[j:], "[:") || end < 0 || strings.Trim(s[j+2:j+end], "abcdefghijklmnopqrstuvwxyz") != "" {
				return 0
			}
			j += end + 1
		case ']':
			if j == i+1 || j == i+2 && s[i+1] == '^' {
				return 0 // the ] may be a literal character
			}
			return j
		}
	}
	return 0
}
