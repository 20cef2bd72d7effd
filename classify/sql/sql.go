// Package sql classifies SQL statements without a database (S0-123).
//
// It is not a parser. A lexer for the comments and quotes of each dialect splits the text into tokens. The class
// depends on the verb, the keywords and the functions. Anything ambiguous is destructive. So the result may be too
// strict, but a statement that changes data is never classified as a read. The exception is a statement that calls a
// function or reads a view that is defined in the database and changes data. Package tools/db protects against these.
package sql

import (
	"slices"
	"strconv"
)

// Dialect is an SQL dialect: it determines comments, quotes, verbs and functions.
type Dialect string

// The dialects.
const (
	// Postgres expects standard_conforming_strings to be on.
	Postgres Dialect = "postgres"
	// MySQL is also the dialect of MariaDB. It expects that sql_mode has neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES.
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// Level is the strictness with which a statement must be treated. A higher level is stricter.
type Level int

// The levels.
const (
	// Read is a statement that changes nothing.
	Read Level = iota
	// Write is a statement that adds or changes rows: INSERT, UPDATE.
	Write
	// Destructive is any other text: DELETE, DROP, other changes, several statements, and anything unknown.
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

// Class is the classification of a text.
type Class struct {
	Level Level
	// Reason explains the level in a few words, such as "DELETE" or "calls pg_read_file".
	Reason string
	// Verb is the first word of the statement in upper case; "" if there is none or there are several statements.
	Verb string
	// Statements is the number of statements; 0 if the text could not be split.
	Statements int
	// Returning is true when the word RETURNING occurs: an INSERT, UPDATE or DELETE then returns rows.
	Returning bool
}

// Classify returns the class of query, the text of one call. Its level is the strictest level of all parts.
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

// routine reports whether the tokens create or alter a routine or trigger. The body of a routine may contain
// semicolons, so such a text counts as one statement. That is safe because the engines accept only one statement per
// call.
func routine(tokens []token) bool {
	isWord := func(name string) func(token) bool {
		return func(t token) bool { return t.kind == word && t.text == name }
	}
	return (isWord("CREATE")(tokens[0]) || isWord("ALTER")(tokens[0])) && slices.ContainsFunc(tokens, isWord("BEGIN"))
}

// split splits tokens at semicolons and drops empty statements.
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
