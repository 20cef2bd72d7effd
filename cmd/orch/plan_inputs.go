package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// inputsFile reads inputs from a file that contains a JSON object.
func (l *planLoader) inputsFile(name string) (values, error) {
	src, err := l.read(name, maxInputs)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(src) {
		return nil, fault.New(fault.InvalidFormat, "%s is not valid UTF-8", name).WithField("--inputs-file")
	}
	v := values{}
	if err := json.Unmarshal(src, &v); err != nil {
		return nil, jsonPlace(name, src, err)
	}
	return v, nil
}

// planInputs returns the checked inputs for a plan. They come from arguments and a file, and are completed by the defaults of the
// plan. Paths are absolute.
func (l *planLoader) planInputs(p *plan.Plan, args []string, file string) (json.RawMessage, error) {
	schema := readSchema(p.Inputs)
	all := values{}
	if file != "" {
		var err error
		if all, err = l.inputsFile(file); err != nil {
			return nil, err
		}
	}
	given, err := parsePairs(args, schema, "--input", asText)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, given)
	return l.checkInputs(p, schema, all)
}

func (l *planLoader) checkInputs(p *plan.Plan, schema inputSchema, given values) (json.RawMessage, error) {
	if given == nil {
		given = values{}
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the inputs cannot be encoded")
	}
	program, err := p.Program()
	if err != nil {
		return nil, err
	}
	checked, err := program.CheckInputs(raw)
	if err != nil {
		return nil, err
	}
	full := values{}
	if err := json.Unmarshal(checked, &full); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the inputs cannot be read")
	}
	for name, p := range schema.Properties {
		if value, ok := full[name]; ok {
			full[name] = l.absolute(p, value)
		}
	}
	return json.Marshal(full)
}

// absolute returns value with absolute paths, if its property has the format "path" or is a list of such values.
func (l *planLoader) absolute(p property, value json.RawMessage) json.RawMessage {
	if p.Format == "path" {
		return l.absolutePath(value)
	}
	var items []json.RawMessage
	if p.Items == nil || p.Items.Format != "path" || json.Unmarshal(value, &items) != nil {
		return value
	}
	for i, item := range items {
		items[i] = l.absolutePath(item)
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return value
	}
	return raw
}

func (l *planLoader) absolutePath(value json.RawMessage) json.RawMessage {
	var path string
	if json.Unmarshal(value, &path) != nil || path == "" {
		return value
	}
	return asText(filepath.Clean(l.path(path)))
}

// searches are the tools that search the workspace by default, which is empty for a task with a single call.
var searches = []string{"GLOB_SEARCH", "GREP_SEARCH"}

// toolArgs returns the checked arguments for a call of a tool, with absolute paths. A search that names no path searches start,
// unless start is empty.
func (l *planLoader) toolArgs(t tools.Tool, args []string, start string) (json.RawMessage, error) {
	given, err := parsePairs(args, readSchema(t.InputSchema()), "argument", asJSON)
	if err != nil {
		return nil, err
	}
	for _, p := range t.Spec().Paths {
		if value, ok := given[p.Field]; ok {
			given[p.Field] = l.absolutePath(value)
		} else if start != "" && slices.Contains(searches, t.Spec().Name) {
			given[p.Field] = asText(start)
		}
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the arguments cannot be encoded")
	}
	return t.Check(raw)
}
