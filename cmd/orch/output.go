package main

import (
	"io"
	"strings"
)

// view is what a command has to say, in every form of output.
type view struct {
	// data is the JSON document.
	data any
	// rows are the lines of jsonl; nil means data in one line.
	rows []any
	// names are the lines of -o name.
	names []string
	// text writes the form for people.
	text func(w io.Writer) error
}

// emit writes a view to stdout in the form the user asked for.
func (a *app) emit(v view) error {
	switch a.cfg.Output {
	case "json":
		return writeJSON(a.out, v.data)
	case "jsonl":
		if v.rows == nil {
			return writeLine(a.out, v.data)
		}
		for _, row := range v.rows {
			if err := writeLine(a.out, row); err != nil {
				return err
			}
		}
		return nil
	case "name":
		return writeLines(a.out, v.names)
	default:
		return v.text(a.out)
	}
}

// rowsOf turns a list into the rows of a view; it is never nil.
func rowsOf[T any](items []T) []any {
	rows := make([]any, len(items))
	for i, item := range items {
		rows[i] = item
	}
	return rows
}

func writeLines(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
