package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// errorJSON is the form of an error on stderr with -o json. It is stable.
type errorJSON struct {
	Code     int            `json:"code"`
	Name     fault.Code     `json:"name"`
	Message  string         `json:"message"`
	Reason   string         `json:"reason,omitempty"`
	Field    string         `json:"field,omitempty"`
	Hint     string         `json:"hint,omitempty"`
	Exit     int            `json:"exit"`
	Problems []plan.Problem `json:"problems,omitempty"`
}

// report writes an error to stderr and returns the exit code.
func (a *app) report(err error, args []string) int {
	exit := exitOf(err)
	var said *exitError
	if errors.As(err, &said) && said.err == nil {
		return exit
	}
	if a.wantsJSON(args) {
		_ = writeJSON(a.err, jsonOf(err, exit)) // nobody is left to tell
		return exit
	}
	_, _ = io.WriteString(a.err, a.textOf(err))
	return exit
}

// tell writes an error to stderr that does not end the command.
func (a *app) tell(err error) {
	if a.wantsJSON(nil) {
		_ = writeJSON(a.err, jsonOf(err, exitOf(err))) // nobody is left to tell
		return
	}
	_, _ = io.WriteString(a.err, a.textOf(err))
}

// wantsJSON also answers for errors that come before the settings are known.
func (a *app) wantsJSON(args []string) bool {
	output := a.cfg.Output
	if output == "" {
		output = askedOutput(args, a.getenv("ORCH_OUTPUT"))
	}
	return output == "json" || output == "jsonl"
}

// askedOutput reads -o from arguments that could not be parsed.
func askedOutput(args []string, output string) string {
	for i, arg := range args {
		switch {
		case arg == "--json":
			output = "json"
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			output = args[i+1]
		case strings.HasPrefix(arg, "--output="), strings.HasPrefix(arg, "-o="):
			_, output, _ = strings.Cut(arg, "=")
		case strings.HasPrefix(arg, "-o") && arg != "-o":
			output = arg[len("-o"):]
		}
	}
	return output
}

func jsonOf(err error, exit int) errorJSON {
	e := fault.From(err).Rewrite(secrets.Clean)
	j := errorJSON{
		Code: e.Code.RPC(), Name: e.Code, Message: e.Message, Reason: e.Reason, Field: e.Field, Hint: e.Hint, Exit: exit,
	}
	if problems, ok := errors.AsType[plan.Problems](err); ok {
		j.Problems = problems
	}
	return j
}

func (a *app) textOf(err error) string {
	if problems, ok := errors.AsType[plan.Problems](err); ok {
		return a.problemsText(problems)
	}
	style := a.style(a.errTTY)
	e := fault.From(err).Rewrite(secrets.Clean)
	name := string(e.Code)
	if e.Reason != "" { // the name by which the pages and the seeds know it
		name += ", " + screen.Escape(e.Reason)
	}
	text := style.Bad("error:") + " " + screen.Escape(e.Sentence()) + style.Dim(" ("+name+")") + "\n"
	if e.Hint != "" {
		text += style.Warn("hint:") + " " + screen.Escape(e.Hint) + "\n"
	}
	return text
}

func (a *app) problemsText(problems plan.Problems) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(screen.Escape(p.String()) + "\n")
	}
	style := a.style(a.errTTY)
	fmt.Fprintf(&b, "%s the plan has %s%s\n", style.Bad("error:"), screen.Plural(len(problems), "problem"),
		style.Dim(" ("+string(fault.InvalidPlan)+")"))
	return b.String()
}

// note writes a line for people to stderr; arguments are escaped.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.err, screen.EscapeLines(fmt.Sprintf(format, args...))) // stderr is closed: nobody reads
}

func writeJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the output cannot be written as JSON")
	}
	_, err = w.Write(append(screen.EscapeJSON(data), '\n'))
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
