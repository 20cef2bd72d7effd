package sql

import (
	"slices"
	"strings"
)

// statement is the state of classifying one statement.
type statement struct {
	dialect Dialect
	tokens  []token
	class   Class
	// main is the index of the main verb; after WITH or EXPLAIN that is a later one.
	main int
}

// raise sets the level and reason of the class if level is stricter than the present level, or if there is no reason
// yet.
func (s *statement) raise(level Level, reason string) {
	if level > s.class.Level || s.class.Reason == "" {
		s.class.Level, s.class.Reason = max(level, s.class.Level), reason
	}
}

// at returns the token at i. Outside of the statement it returns an empty symbol.
func (s *statement) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: symbol}
	}
	return s.tokens[i]
}

// word returns the unquoted word at i, or "" if the token is not a word.
func (s *statement) word(i int) string {
	if t := s.at(i); t.kind == word {
		return t.text
	}
	return ""
}

// classify sets s.class.
func (s *statement) classify() {
	s.verb(s.skipOpen(0), true)
	for i := range s.tokens {
		s.keyword(i)
		s.function(i)
	}
}

// skipOpen returns the index of the first token from i on that is not an opening parenthesis.
func (s *statement) skipOpen(i int) int {
	for s.at(i).is("(") {
		i++
	}
	return i
}

// verb classifies the verb at i. first is true for the first verb of the statement.
func (s *statement) verb(i int, first bool) {
	verb := s.word(i)
	if first {
		s.class.Verb = verb
	}
	s.main = i
	switch {
	case verb == "":
		s.raise(Destructive, "no verb")
	case verb == "SELECT" || verb == "VALUES":
		s.raise(Read, verb)
	case verb == "TABLE" && s.dialect != SQLite:
		s.raise(Read, verb)
	case verb == "SHOW" && s.dialect != SQLite && first:
		s.raise(Read, verb)
	case verb == "INSERT" || verb == "UPDATE":
		s.raise(Write, verb)
	case verb == "WITH":
		s.with(i)
	case first && (verb == "EXPLAIN" || s.dialect == MySQL && (verb == "DESCRIBE" || verb == "DESC")):
		s.explain(i)
	case first && verb == "PRAGMA" && s.dialect == SQLite:
		s.pragma(i)
	default:
		s.raise(Destructive, verb)
	}
}

// with classifies the verb after the named queries of a WITH clause: the first verb outside of parentheses. A named
// query may itself be named like a verb; that only makes the class stricter.
func (s *statement) with(i int) {
	verbs := []string{"SELECT", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"}
	depth, bracketed := 0, false
	for j := i + 1; j < len(s.tokens); j++ {
		switch t := s.tokens[j]; {
		case t.is("("):
			depth++
			bracketed = bracketed || depth == 1 && s.at(j-1).is(")")
		case t.is(")"):
			depth--
		case depth == 0 && slices.Contains(verbs, s.word(j)):
			s.verb(j, false)
			return
		}
	}
	if bracketed { // WITH a AS (…) (SELECT …)
		s.raise(Read, "WITH")
		return
	}
	s.raise(Destructive, "WITH without a verb")
}

// explain classifies the statement that EXPLAIN explains. In MySQL EXPLAIN and DESCRIBE also accept the name of a
// table.
func (s *statement) explain(i int) {
	options := []string{"ANALYZE", "ANALYSE", "VERBOSE", "QUERY", "PLAN", "EXTENDED", "PARTITIONS"}
	j := i + 1
	if s.dialect == Postgres && s.at(j).is("(") && !slices.Contains([]string{"SELECT", "VALUES", "TABLE", "WITH", "("}, s.at(j+1).text) {
		j = s.closing(j) + 1
	}
	for slices.Contains(options, s.word(j)) {
		j++
	}
	if s.dialect == MySQL && s.word(j) == "FORMAT" && s.at(j+1).is("=") {
		j += 3
	}
	if s.dialect == MySQL && s.isTable(j) {
		s.raise(Read, s.class.Verb)
		return
	}
	s.verb(s.skipOpen(j), false)
}

// closing returns the index of the parenthesis that closes the parenthesis at i.
func (s *statement) closing(i int) int {
	depth := 0
	for ; i < len(s.tokens); i++ {
		switch {
		case s.tokens[i].is("("):
			depth++
		case s.tokens[i].is(")"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// isTable reports whether the tokens from i on are the name of a table, optionally with a column or a pattern.
func (s *statement) isTable(i int) bool {
	rest := s.tokens[min(i, len(s.tokens)):]
	if len(rest) == 0 || len(rest) > 4 {
		return false
	}
	for _, t := range rest {
		if t.name() == "" && !t.is(".") && t.kind != text {
			return false
		}
	}
	switch rest[0].name() {
	case "SELECT", "VALUES", "TABLE", "WITH", "INSERT", "UPDATE":
		return rest[0].kind == quoted
	}
	return !slices.ContainsFunc(rest, func(t token) bool { return t.kind == word && destructiveWord(t.text) })
}

// pragma classifies a PRAGMA: it is Read if the pragma only returns information.
func (s *statement) pragma(i int) {
	name := i + 1
	if s.at(name + 1).is(".") {
		name += 2
	}
	if !ReadPragma(s.at(name).name()) || s.at(name+1).is("=") {
		s.raise(Destructive, "PRAGMA "+s.at(name).name())
		return
	}
	s.raise(Read, "PRAGMA")
}

// ReadPragma reports whether a pragma of SQLite only returns information, whatever its argument.
func ReadPragma(name string) bool {
	return slices.Contains([]string{
		"TABLE_INFO", "TABLE_XINFO", "TABLE_LIST", "INDEX_LIST", "INDEX_INFO", "INDEX_XINFO", "FOREIGN_KEY_LIST",
		"FOREIGN_KEY_CHECK", "INTEGRITY_CHECK", "QUICK_CHECK", "COMPILE_OPTIONS", "FUNCTION_LIST", "COLLATION_LIST",
		"PAGE_COUNT", "FREELIST_COUNT",
	}, upper(name))
}

// destructiveWord reports whether a keyword indicates a destructive change wherever it occurs in a statement.
func destructiveWord(w string) bool {
	switch w {
	case "DELETE", "DROP", "TRUNCATE", "ALTER", "CREATE", "GRANT", "REVOKE", "MERGE", "REPLACE", "INTO", "OUTFILE", "DUMPFILE", "PROCEDURE":
		return true
	}
	return false
}

// keyword classifies the word at i, unless it follows a dot and therefore is a name.
func (s *statement) keyword(i int) {
	w := s.word(i)
	switch {
	case w == "" || s.at(i-1).is("."):
	case w == "RETURNING":
		s.class.Returning = true
	case w == "INSERT" && s.dialect == MySQL && i != s.main && s.at(i+1).is("("): // the function
	case w == "INSERT" || w == "UPDATE":
		s.raise(Write, s.phrase(i))
	case w == "SHARE" && slices.Contains([]string{"FOR", "KEY", "IN"}, s.word(i-1)):
		s.raise(Write, "a lock of rows")
	case w == "VALUE" && s.word(i-1) == "NEXT":
		s.raise(Write, "NEXT VALUE")
	case destructiveWord(w) && !s.harmless(i, w):
		s.raise(Destructive, s.phrase(i))
	}
}

// harmless reports whether the word w, which destructiveWord accepts, is harmless at i.
func (s *statement) harmless(i int, w string) bool {
	switch w {
	case "INTO":
		return s.insertInto(i)
	case "REPLACE", "TRUNCATE": // the functions
		return i != s.main && s.at(i+1).is("(") && s.word(i-1) != "OR"
	case "CREATE", "PROCEDURE": // SHOW CREATE TABLE, SHOW PROCEDURE STATUS
		return s.class.Verb == "SHOW" && i <= 2
	}
	return false
}

// insertInto reports whether the INTO at i belongs to an INSERT that is a verb.
func (s *statement) insertInto(i int) bool {
	modifiers := []string{"OR", "ABORT", "FAIL", "IGNORE", "ROLLBACK", "REPLACE", "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"}
	i--
	for slices.Contains(modifiers, s.word(i)) {
		i--
	}
	return s.word(i) == "INSERT" && (i == s.main || s.at(i-1).is("("))
}

// phrase returns the word at i for Class.Reason, with a second word where that is clearer.
func (s *statement) phrase(i int) string {
	switch w := s.word(i); {
	case s.word(i-1) == "FOR":
		return "FOR " + w
	case w == "INTO":
		return s.class.Verb + " INTO"
	default:
		return w
	}
}

// function classifies a function call: a name at i that a parenthesis follows.
func (s *statement) function(i int) {
	name := s.tokens[i].name()
	if name == "" || !s.at(i+1).is("(") {
		return
	}
	if level := functionLevel(s.dialect, strings.ToLower(name)); level > Read {
		s.raise(level, "calls "+strings.ToLower(name))
	}
}
