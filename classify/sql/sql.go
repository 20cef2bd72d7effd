// Package sql tells what an SQL statement would do, without a database (S0-123).
//
// It is no parser. A lexer that knows the comments and quotes of each dialect splits the text into
// tokens; the verb, the keywords and the functions among them decide, and whatever it cannot tell
// counts as destructive. It can therefore be stricter than the truth, but not laxer: a statement that
// changes something never counts as a read, unless a function or a view of the database does so behind
// its back. Against those the engines have guards of their own (package tools/db).
package sql

import (
	"slices"
	"strconv"
)

// Dialect is a family of SQL, by its comments, quotes, verbs and functions.
type Dialect string

// The dialects.
const (
	// Postgres expects standard_conforming_strings to be on.
	Postgres Dialect = "postgres"
	// MySQL is that of MariaDB too. It expects neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES in sql_mode.
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// Level orders statements by what they may do.
type Level int

// The levels.
const (
	// Read changes nothing.
	Read Level = iota
	// Write adds or changes rows: INSERT, UPDATE.
	Write
	// Destructive is everything else: DELETE, DROP, other changes, several statements, and whatever is unknown.
	Destructive
)

// String returns read, write or destructive.
func (l Level) String() string {
	switch l {
	case Read:
		return "read"
	case Write:
		return "write"
	default:
		return "destructive"
	}
}

// Class is what a text counts as.
type Class struct {
	Level Level
	// Reason says why in a few words, such as "DELETE" or "calls pg_read_file".
	Reason string
	// Verb is the first word of the statement in capitals, "" when there is none or several statements.
	Verb string
	// Statements is the number of statements, 0 when they could not be told apart.
	Statements int
	// Returning is true when the word RETURNING occurs: a change then has rows.
	Returning bool
}

// Classify returns the class of the text of one call. Of all that it finds the strictest counts.
func Classify(d Dialect, query string) Class {
	tokens, problem := lex(d, query)
	if problem != "" {
		return Class{Level: Destructive, Reason: problem}
	}
	statements := split(tokens)
	switch len(statements) {
	case 0:
		return Class{Level: Destructive, Reason: "no statement"}
	case 1:
	default:
		if routine(tokens) {
			return Class{Level: Destructive, Reason: tokens[0].text, Verb: tokens[0].text, Statements: 1}
		}
		return Class{Level: Destructive, Reason: strconv.Itoa(len(statements)) + " statements", Statements: len(statements)}
	}
	s := &statement{dialect: d, tokens: statements[0]}
	s.classify()
	s.class.Statements = 1
	return s.class
}

// routine reports whether the tokens create or alter a routine or trigger, whose body may hold semicolons. It
// may be more than that; the engines take one statement in any case.
func routine(tokens []token) bool {
	isWord := func(name string) func(token) bool {
		return func(t token) bool { return t.kind == word && t.text == name }
	}
	return (isWord("CREATE")(tokens[0]) || isWord("ALTER")(tokens[0])) && slices.ContainsFunc(tokens, isWord("BEGIN"))
}

// split cuts at semicolons and drops what is empty.
func split(tokens []token) [][]token {
	var statements [][]token
	begin := 0
	for i, t := range append(tokens, token{symbol, ";"}) {
		if t.is(";") {
			if i > begin {
				statements = append(statements, tokens[begin:i])
			}
			begin = i + 1
		}
	}
	return statements
}
