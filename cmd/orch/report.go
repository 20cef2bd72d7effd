package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// errorJSON is the format of an error on stderr with -o json. It is stable.
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
func (e *env) report(err error, args []string) int {
	exit := exitOf(err)
	var said *exitError
	if errors.As(err, &said) && said.err == nil {
		return exit
	}
	if e.wantsJSON(args) {
		_ = writeJSON(e.err, jsonOf(err, exit)) // if stderr is closed, nobody reads the error
		return exit
	}
	_, _ = io.WriteString(e.err, e.textOf(err))
	return exit
}

// reportError writes an error to stderr that does not end the command.
func (e *env) reportError(err error) {
	if e.wantsJSON(nil) {
		_ = writeJSON(e.err, jsonOf(err, exitOf(err))) // if stderr is closed, nobody reads the error
		return
	}
	_, _ = io.WriteString(e.err, e.textOf(err))
}

// wantsJSON reports whether errors are written as JSON. It also works for errors that occur before the settings are read.
func (e *env) wantsJSON(args []string) bool {
	output := e.cfg.Output
	if output == "" {
		output = askedOutput(args, e.getenv("ORCH_OUTPUT"))
	}
	return output == "json" || output == "jsonl"
}

// askedOutput returns the value of -o in arguments that could not be parsed, or output if there is none.
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

func (e *env) textOf(err error) string {
	if problems, ok := errors.AsType[plan.Problems](err); ok {
		return e.problemsText(problems)
	}
	style := e.style(e.errTTY)
	fe := fault.From(err).Rewrite(secrets.Clean)
	name := string(fe.Code)
	if fe.Reason != "" { // the documentation lists reasons by this name
		name += ", " + screen.Escape(fe.Reason)
	}
	text := style.Bad("error:") + " " + screen.Escape(fe.Sentence()) + style.Dim(" ("+name+")") + "\n"
	if fe.Hint != "" {
		text += style.Warn("hint:") + " " + screen.Escape(fe.Hint) + "\n"
	}
	return text
}

func (e *env) problemsText(problems plan.Problems) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(screen.Escape(p.String()) + "\n")
	}
	style := e.style(e.errTTY)
	fmt.Fprintf(&b, "%s the plan has %s%s\n", style.Bad("error:"), screen.Plural(len(problems), "problem"),
		style.Dim(" ("+string(fault.InvalidPlan)+")"))
	return b.String()
}
