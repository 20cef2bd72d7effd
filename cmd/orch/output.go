package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// view is the output of a command in all formats.
type view struct {
	// data is the JSON document.
	data any
	// rows are the lines of jsonl; nil means data in one line.
	rows []any
	// names are the lines of -o name.
	names []string
	// text writes the output for people.
	text func(w io.Writer) error
}

// emit writes a view to stdout in the selected format.
func (e *env) emit(v view) error {
	switch e.cfg.Output {
	case "json":
		return writeJSON(e.out, v.data)
	case "jsonl":
		if v.rows == nil {
			return writeLine(e.out, v.data)
		}
		for _, row := range v.rows {
			if err := writeLine(e.out, row); err != nil {
				return err
			}
		}
		return nil
	case "name":
		return writeLines(e.out, v.names)
	default:
		return v.text(e.out)
	}
}

// rowsOf converts a list to the rows of a view. The result is never nil, because nil rows have another meaning.
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

func writeLine(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the output cannot be written as JSON")
	}
	_, err = w.Write(append(screen.EscapeJSON(data), '\n'))
	return err
}

func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the output cannot be written as JSON")
	}
	_, err = w.Write(append(screen.EscapeJSON(data), '\n'))
	return err
}

// progressLine returns a function that shows text in one line on a terminal. An empty text removes the line.
func (e *env) progressLine() func(text string) {
	shown := e.errTTY && e.cfg.Output == "text"
	return func(text string) {
		if shown {
			_, _ = io.WriteString(e.err, "\r"+text+"\x1b[K") // if stderr is closed, nobody reads the line
		}
	}
}

// confirm shows a text on stderr and asks a question. It returns CANCELLED if the answer is no. Without a terminal it returns
// INVALID_PARAMS with the hint look, which explains how to read the text.
func (e *env) confirm(ctx context.Context, text, question, look string) error {
	if !e.inTTY || !e.errTTY {
		return fault.New(fault.InvalidParams, "there is no terminal to ask on").WithHint("%s, then pass --yes", look)
	}
	if _, err := io.WriteString(e.err, screen.EscapeLines(text)+question+" [y/N] "); err != nil {
		return fault.New(fault.Internal, "asking: %w", err)
	}
	answer := make(chan string, 1)
	go func() { // a read cannot be cancelled; it ends with the process
		line, _ := bufio.NewReader(e.in).ReadString('\n') // without a line, the answer is no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return fault.New(fault.Cancelled, "nothing was changed")
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return fault.New(fault.Cancelled, "nothing was changed")
	}
}
