package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/messages"
)

// stdinName is the argument for stdin.
const stdinName = "-"

// path makes a path of the command line absolute.
func (e *env) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.dir, name)
}

// read returns the content of a file, or of stdin for "-", up to a limit in bytes.
func (e *env) read(name string, limit int64) ([]byte, error) {
	from := e.in
	if name != stdinName {
		f, err := os.Open(e.path(name))
		if err != nil {
			return nil, e.fileError(name, err)
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

// interruptible calls read, and returns CANCELLED if ctx ends before that returns: nothing else ends a read from a pipe whose writer says
// nothing. What was read then is lost.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fault.From(ctx.Err())
	}
}

func (e *env) fileError(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Forbidden, "cannot read %s: %w", name, err)
	}
	missing := fault.New(fault.NotFound, "there is no file %s", name)
	entries, readErr := os.ReadDir(filepath.Dir(e.path(name)))
	if readErr != nil {
		return missing.WithHint("there is no directory %s either", filepath.Dir(name))
	}
	var known []string
	for _, entry := range entries {
		known = append(known, entry.Name())
	}
	if near := spell.Nearest(filepath.Base(name), known); near != "" {
		return missing.WithHint("did you mean %s?", filepath.Join(filepath.Dir(name), near))
	}
	if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" && ext != ".json" {
		return missing
	}
	return missing.WithHint("write a first plan: orch plan new %s", name)
}

// textArg returns arg, or the content of stdin if arg is "-".
func (e *env) textArg(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(io.LimitReader(e.in, messages.MaxSize+1))
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "stdin cannot be read")
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// shortPaths returns a JSON object in which the paths of files below the working directory are relative to it, for people.
func (e *env) shortPaths(raw json.RawMessage) json.RawMessage {
	fields, ok := screen.Fields(raw)
	if !ok {
		return raw
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(f.Name) // a string can always be encoded
		b.Write(name)
		b.WriteByte(':')
		b.Write(e.shortPath(f.Value))
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func (e *env) shortPath(value json.RawMessage) json.RawMessage {
	var path string
	if json.Unmarshal(value, &path) != nil || !filepath.IsAbs(path) {
		return value
	}
	rel, err := filepath.Rel(e.dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return value
	}
	if _, err := os.Stat(path); err != nil {
		return value
	}
	short, err := json.Marshal(rel)
	if err != nil {
		return value
	}
	return short
}
