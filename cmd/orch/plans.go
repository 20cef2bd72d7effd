package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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

// loadPlan reads and checks a plan file.
func (a *app) loadPlan(name string) (*plan.Plan, error) {
	src, err := a.read(name, plan.MaxSource)
	if err != nil {
		return nil, err
	}
	if name == stdinName {
		name = "stdin"
	}
	options, err := a.planOptions()
	if err != nil {
		return nil, err
	}
	return plan.Parse(name, src, options)
}

// planOptions lets the check of a plan see files and tools.
func (a *app) planOptions() (plan.Options, error) {
	catalogue, err := a.nodes.Tools()
	if err != nil {
		return plan.Options{}, err
	}
	return plan.Options{
		ReadFile:  func(path string) ([]byte, error) { return a.read(path, plan.MaxSource) },
		ToolNames: catalogue.Names,
		Tool: func(name string) (plan.ToolInfo, bool) {
			t, ok := catalogue.Get(name)
			if !ok {
				return plan.ToolInfo{}, false
			}
			return toolInfo(t), true
		},
	}, nil
}

func toolInfo(t tools.Tool) plan.ToolInfo {
	spec := t.Spec()
	schema := readSchema(t.InputSchema())
	info := plan.ToolInfo{Effect: plan.Effect(spec.Effect), AnyState: spec.Gate == tools.AnyState, Required: schema.Required}
	for name := range schema.Properties {
		info.Properties = append(info.Properties, name)
	}
	return info
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
	Items       *property       `json:"items"`
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
