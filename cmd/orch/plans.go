package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// stdinName is the argument that stands for stdin.
const stdinName = "-"

// path makes a path of the command line absolute.
func (a *app) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(a.dir, name)
}

// read returns the content of a file, or of stdin for "-", up to a limit in bytes.
func (a *app) read(name string, limit int64) ([]byte, error) {
	from := a.in
	if name != stdinName {
		f, err := os.Open(a.path(name))
		if err != nil {
			return nil, a.fileError(name, err)
		}
		defer f.Close()
		from = f
	}
	src, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, fault.New(fault.InvalidParams, "cannot read %s: %w", name, err)
	}
	if int64(len(src)) > limit {
		return nil, fault.New(fault.ValidationError, "%s has more than %d bytes", name, limit)
	}
	return src, nil
}

func (a *app) fileError(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Forbidden, "cannot read %s: %w", name, err)
	}
	missing := fault.New(fault.NotFound, "there is no file %s", name)
	entries, readErr := os.ReadDir(filepath.Dir(a.path(name)))
	if readErr != nil {
		return missing.WithHint("there is no directory %s either", filepath.Dir(name))
	}
	var known []string
	for _, e := range entries {
		known = append(known, e.Name())
	}
	if near := spell.Nearest(filepath.Base(name), known); near != "" {
		return missing.WithHint("did you mean %s?", filepath.Join(filepath.Dir(name), near))
	}
	return missing.WithHint("write a first plan: orch plan new %s", name)
}

// loadPlan reads and checks a plan file. Warnings go to stderr.
func (a *app) loadPlan(ctx context.Context, name string) (*plan.Plan, error) {
	return a.parsePlan(ctx, name, func(p plan.Problem) { a.note("warning: %s", p) })
}

// parsePlan reads and checks a plan file. warn is told of what is allowed but likely not meant.
func (a *app) parsePlan(ctx context.Context, name string, warn func(plan.Problem)) (*plan.Plan, error) {
	src, err := a.read(name, plan.MaxSource)
	if err != nil {
		return nil, err
	}
	if name == stdinName {
		name = "stdin"
	}
	options := a.planOptions(ctx)
	options.Warn = warn
	return plan.Parse(name, src, options)
}

// planOptions lets the check of a plan see files and tools.
func (a *app) planOptions(ctx context.Context) plan.Options {
	return plan.Options{
		ReadFile: func(path string) ([]byte, error) { return a.read(path, plan.MaxSource) },
		ToolNames: func() []string {
			catalogue, err := a.catalogue(ctx)
			if err != nil {
				return nil
			}
			return catalogue.Names()
		},
		Tool: func(name string) (plan.ToolInfo, bool) {
			t, ok := a.lookUp(ctx, name)
			if !ok {
				return plan.ToolInfo{}, false
			}
			return toolInfo(t), true
		},
	}
}

func toolInfo(t tools.Tool) plan.ToolInfo {
	spec := t.Spec()
	required, fields := tools.Fields(t)
	return plan.ToolInfo{
		Name: spec.Name, Effect: plan.Effect(spec.Effect), AnyState: spec.Gate == tools.AnyState, Direct: spec.Direct, Command: spec.Command, Secrets: spec.Secrets,
		Required: required, Properties: fields, Input: t.InputSchema, Output: t.OutputSchema, Check: t.Check,
	}
}

// inputSchema is what the command line has to know of a JSON Schema.
type inputSchema struct {
	Required   []string            `json:"required"`
	Properties map[string]property `json:"properties"`
}

// property is one input.
type property struct {
	Type        jsonTypes       `json:"type"`
	Format      string          `json:"format"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []any           `json:"enum"`
	OneOf       []choice        `json:"oneOf"`
	AnyOf       []choice        `json:"anyOf"`
	Items       *property       `json:"items"`
}

// choice is a value that an input may have, with its title.
type choice struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// UnmarshalJSON reads a schema as far as it is such a value.
func (c *choice) UnmarshalJSON(data []byte) error { //nolint:unparam // the interface of encoding/json
	type plain choice
	if json.Unmarshal(data, (*plain)(c)) != nil {
		*c = choice{}
	}
	return nil
}

// choices are the values that an input may have, for people; none when nothing is listed.
func (p property) choices() []string {
	var list []string
	for _, value := range p.Enum {
		list = append(list, fmt.Sprint(value))
	}
	for _, c := range slices.Concat(p.OneOf, p.AnyOf) {
		switch {
		case c.Const == nil: // a schema of another kind
		case c.Title == "":
			list = append(list, fmt.Sprint(c.Const))
		default:
			list = append(list, fmt.Sprint(c.Const)+": "+c.Title)
		}
	}
	if p.Items != nil {
		list = append(list, p.Items.choices()...)
	}
	return list
}

// jsonTypes is the keyword type: one name, or several.
type jsonTypes []string

// UnmarshalJSON reads both forms.
func (t *jsonTypes) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = jsonTypes{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// readSchema reads a schema as far as it is understood; the real check is made by its owner.
func readSchema(raw json.RawMessage) inputSchema {
	var s inputSchema
	if json.Unmarshal(raw, &s) != nil {
		return inputSchema{}
	}
	return s
}
