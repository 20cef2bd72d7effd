package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Interprets reports whether a program is an interpreter: it executes the file in its first argument.
func Interprets(name string) bool {
	return slices.Contains(strings.Fields("sh bash dash zsh ksh python python3 node ruby perl"), name)
}

// PlainCall returns the words of a script that is a single simple command. Words that contain variables are returned as
// "". It returns false for any other script.
func PlainCall(text string) ([]string, bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	stmt := file.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Negated || stmt.Background || stmt.Coprocess || stmt.Disown || len(stmt.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		if words[i], ok = plainWord(w); !ok {
			return nil, false
		}
	}
	return words, words[0] != ""
}

// plainWord returns a word that the shell passes on unchanged. For a word with variables in double quotes it returns ""
// and true. It returns false for any other word.
func plainWord(w *syntax.Word) (string, bool) {
	k := &checker{}
	if a := k.arg(w); a.fixed {
		bare := w.Lit()
		return a.text, !k.pattern(w) && !strings.HasPrefix(bare, "~") && !strings.ContainsAny(bare, "{}")
	}
	for _, part := range w.Parts {
		quoted, ok := part.(*syntax.DblQuoted)
		if !ok || quoted.Dollar || !plainQuoted(quoted) {
			return "", false
		}
	}
	return "", true
}

// plainQuoted reports whether a double-quoted string contains only literal text and plain variables.
func plainQuoted(q *syntax.DblQuoted) bool {
	for _, part := range q.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
		case *syntax.ParamExp:
			plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
			if !plain {
				return false
			}
		default:
			return false
		}
	}
	return true
}
