package sql

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is a kind of token.
type kind int

const (
	word   kind = iota // an unquoted name or keyword; its ASCII letters are in upper case
	quoted             // a quoted name
	text               // a string
	escape             // a string with backslash escapes of PostgreSQL: E'…'
	number
	symbol // one character
	param  // a named or numbered parameter
)

// token is a lexical token. text is the content of a name, string or symbol.
type token struct {
	kind kind
	text string
}

// is reports whether the token is the symbol s.
func (t token) is(s string) bool { return t.kind == symbol && t.text == s }

// name returns the name in a word or quoted token, in upper case. It returns "" for other tokens.
func (t token) name() string {
	switch t.kind { //nolint:exhaustive // tokens of the other kinds are not names
	case word:
		return t.text
	case quoted:
		return upper(t.text)
	}
	return ""
}

// lexer splits a text into tokens. It stops at the first token with an ambiguous end.
type lexer struct {
	dialect Dialect
	src     string
	at      int
	tokens  []token
	// problem is the reason why the text cannot be split, or "".
	problem string
}

// lex returns the tokens of a text without its comments. If the text cannot be split, it returns the reason as the
// second result.
func lex(d Dialect, src string) ([]token, string) {
	l := &lexer{dialect: d, src: src}
	if !utf8.ValidString(src) {
		return nil, "bytes that are not UTF-8"
	}
	for l.at < len(src) && l.problem == "" {
		l.next()
	}
	return l.tokens, l.problem
}

func (l *lexer) add(k kind, s string) { l.tokens = append(l.tokens, token{k, s}) }

func (l *lexer) fail(problem string) { l.problem = problem }

// ahead reports whether the remaining text begins with s.
func (l *lexer) ahead(s string) bool { return strings.HasPrefix(l.src[l.at:], s) }

// peek returns the byte at offset n from the current position, or 0 after the end.
func (l *lexer) peek(n int) byte {
	if l.at+n < len(l.src) {
		return l.src[l.at+n]
	}
	return 0
}

// next scans one token, comment or space.
func (l *lexer) next() {
	c := l.src[l.at]
	switch {
	case isSpace(c):
		l.at++
	case c < ' ' || c == 0x7f:
		l.fail("a control character")
	case l.ahead("/*"):
		l.blockComment()
	case l.lineComment():
	case c == '\'' || c == '"' || c == '`' && l.dialect != Postgres || c == '[' && l.dialect == SQLite:
		l.quote(c)
	case isDigit(c) || c == '.' && isDigit(l.peek(1)):
		l.number()
	case c == '$' && l.dialect == Postgres:
		l.dollar()
	case l.startsName(c):
		l.name()
	case l.dialect == SQLite && strings.IndexByte("$:@#?", c) >= 0:
		l.variable()
	case c == '\\' || c >= utf8.RuneSelf:
		l.fail("a character outside of names and strings")
	default:
		l.add(symbol, string(c))
		l.at++
	}
}

// lineComment skips a comment that ends with the line, and reports whether there was one. MySQL requires a space after
// the dashes.
func (l *lexer) lineComment() bool {
	dashes := l.ahead("--") && (l.dialect != MySQL || l.peek(2) <= ' ')
	if !dashes && (l.dialect != MySQL || l.peek(0) != '#') {
		return false
	}
	line, _, ended := strings.Cut(l.src[l.at:], "\n")
	// The engines do not agree whether a lone carriage return or a NUL ends the comment.
	if strings.ContainsAny(strings.TrimSuffix(line, "\r"), "\r\x00") || !ended && strings.HasSuffix(line, "\r") {
		l.fail("a carriage return in a comment")
	}
	l.at += len(line)
	return true
}

// blockComment skips a comment /* … */. In PostgreSQL comments nest. In MySQL a comment that begins with /*! is
// executed as code, so it is a problem.
func (l *lexer) blockComment() {
	if l.dialect == MySQL && (l.peek(2) == '!' || (l.peek(2) == 'M' || l.peek(2) == 'm') && l.peek(3) == '!') {
		l.fail("a comment that is code")
		return
	}
	depth := 0
	for ; l.at < len(l.src); l.at++ {
		switch {
		case l.ahead("/*") && (depth == 0 || l.dialect == Postgres):
			depth++
			l.at++
		case l.ahead("*/"):
			l.at++
			if depth--; depth == 0 {
				l.at++
				return
			}
		}
	}
	l.fail("an unterminated comment")
}

// quote scans a string or a quoted name. open is its opening quote.
func (l *lexer) quote(open byte) {
	k, backslashes := quoted, false
	switch {
	case open == '\'':
		k, backslashes = text, l.dialect == MySQL
	case open == '"' && l.dialect == MySQL:
		k, backslashes = text, true
	}
	l.quoteOf(open, k, backslashes)
}

// quoteOf scans text between quotes as a token of kind k. backslashes is true if a backslash escapes the next byte.
func (l *lexer) quoteOf(open byte, k kind, backslashes bool) {
	if k == text && len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind == escape {
		l.fail("a string that continues a string with backslash escapes") // E'…' newline '…' is one string
		return
	}
	end := open
	if open == '[' {
		end = ']'
	}
	var inside strings.Builder
	for l.at++; l.at < len(l.src); l.at++ {
		c := l.src[l.at]
		switch {
		case c == 0:
			l.fail("a control character")
			return
		case c == '\\' && backslashes:
			l.at++
		case c == end && l.peek(1) == end && open != '[':
			inside.WriteByte(c)
			l.at++
		case c == end:
			l.at++
			l.add(k, inside.String())
			return
		default:
			inside.WriteByte(c)
		}
	}
	l.fail("an unterminated string or name")
}

// dollar scans a parameter such as $1, or a string between two $tag$.
func (l *lexer) dollar() {
	if isDigit(l.peek(1)) {
		for l.at++; isDigit(l.peek(0)); l.at++ {
		}
		l.add(param, "")
		return
	}
	n := 1
	for ; l.peek(n) != '$'; n++ {
		c := l.peek(n)
		if !isWord(c) && c < utf8.RuneSelf || n == 1 && isDigit(c) {
			l.fail("a dollar sign")
			return
		}
	}
	tag := l.src[l.at : l.at+n+1]
	body, _, ended := strings.Cut(l.src[l.at+len(tag):], tag)
	if !ended {
		l.fail("an unterminated string or name")
		return
	}
	l.add(text, body)
	l.at += 2*len(tag) + len(body)
}

func (l *lexer) startsName(c byte) bool {
	return isWord(c) || c >= utf8.RuneSelf || c == '$' && l.dialect == MySQL
}

// name scans an unquoted name or keyword, or a string with a prefix.
func (l *lexer) name() {
	begin := l.at
	for l.at < len(l.src) {
		r, size := utf8.DecodeRuneInString(l.src[l.at:])
		if r >= utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			// SQLite treats a byte order mark as a space; other engines may do the same with other characters.
			l.fail("a character outside of names and strings")
			return
		}
		if r < utf8.RuneSelf && !isWord(l.src[l.at]) && r != '$' {
			break
		}
		l.at += size
	}
	name := upper(l.src[begin:l.at])
	switch {
	case l.dialect == Postgres && name == "E" && l.peek(0) == '\'':
		l.quoteOf('\'', escape, true)
	case l.dialect == Postgres && name == "U" && l.peek(0) == '&' && (l.peek(1) == '\'' || l.peek(1) == '"'):
		l.fail("a string or name with Unicode escapes")
	case l.peek(0) == '\'' && (name == "B" || name == "X" || name == "N"):
		l.quote('\'')
	default:
		l.add(word, name)
	}
}

// number scans a number. In MySQL a name may begin with digits. In other dialects a number directly followed by a name
// is a problem, because versions parse it differently.
func (l *lexer) number() {
	begin := l.at
	if l.ahead("0x") || l.ahead("0X") || l.ahead("0b") || l.ahead("0o") {
		l.at += 2
		l.run(isHexDigit)
	} else {
		l.run(isDigit)
		if l.peek(0) == '.' {
			l.at++
			l.run(isDigit)
		}
		l.exponent()
	}
	c := l.peek(0)
	switch {
	case !isWord(c) && c < utf8.RuneSelf && (c != '$' || l.dialect == Postgres):
		l.add(number, "")
	case l.dialect == MySQL && !strings.Contains(l.src[begin:l.at], "."):
		l.at = begin
		l.name()
	default:
		l.fail("a number that runs into a name")
	}
}

// run skips the bytes that ok accepts, and outside of MySQL also underscores between them.
func (l *lexer) run(ok func(byte) bool) {
	for l.at < len(l.src) && (ok(l.src[l.at]) || l.src[l.at] == '_' && l.dialect != MySQL && ok(l.peek(1))) {
		l.at++
	}
}

// exponent skips the exponent of a number, if there is one.
func (l *lexer) exponent() {
	if c := l.peek(0); c != 'e' && c != 'E' {
		return
	}
	n := 1
	if c := l.peek(1); c == '+' || c == '-' {
		n = 2
	}
	if isDigit(l.peek(n)) {
		l.at += n
		l.run(isDigit)
	}
}

// variable scans a named or numbered parameter of SQLite.
func (l *lexer) variable() {
	c := l.src[l.at]
	l.at++
	l.run(func(c byte) bool { return isWord(c) || c >= utf8.RuneSelf })
	switch {
	case c == '#', l.peek(0) == '(', l.ahead("::"): // Tcl parameters may contain anything in parentheses
		l.fail("a variable")
	default:
		l.add(param, "")
	}
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isWord(c byte) bool {
	return isDigit(c) || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_'
}

func isHexDigit(c byte) bool {
	return isDigit(c) || 'A' <= c && c <= 'F' || 'a' <= c && c <= 'f'
}

// upper returns s with ASCII letters in upper case, as the engines fold keywords.
func upper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}
