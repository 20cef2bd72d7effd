package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/retention"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 64 << 10

// loadFile applies a file if it exists. Its relative paths are relative to dir.
func loadFile(c *Config, path, dir, home string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fault.New(fault.ValidationError, "%s is no regular file", path) // opening a pipe without a writer would block
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Forbidden, "cannot read %s: %w", path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fault.New(fault.Internal, "cannot read %s: %w", path, err)
	}
	if len(src) > maxFile {
		return fault.New(fault.ValidationError, "%s: the file has more than %d bytes", path, maxFile)
	}
	return Parse(c, path, src, dir, home)
}

// Parse applies the text of a configuration file to c. name is for messages, relative paths are
// relative to dir. Unknown and repeated keys are errors.
func Parse(c *Config, name string, src []byte, dir, home string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return syntax(name, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return at(name, root, dir, home).invalid("the file must hold keys and values").WithHint("such as data_dir: ~/.orch/data")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return at(name, key, dir, home).invalid("the key %s stands twice", key.Value)
		}
		seen[key.Value] = true
		if err := assign(c, name, key, value, dir, home); err != nil {
			return err
		}
	}
	return nil
}

func assign(c *Config, name string, key, value *yaml.Node, dir, home string) error {
	for _, k := range Keys() {
		if k.Name != key.Value {
			continue
		}
		text, err := k.textOf(value, at(name, value, dir, home))
		if err != nil {
			return err
		}
		if err := k.set(c, text, at(name, value, dir, home)); err != nil {
			return err
		}
		if k.Personal && dir != home {
			return at(name, key, dir, home).invalid("the file of a project may not set %s", k.Name).
				WithHint("use ~/%s, --%s or %s", FileName, k.Flag(), k.Env())
		}
		return k.inProject(c, at(name, value, dir, home))
	}
	err := at(name, key, dir, home).invalid("there is no setting %q", key.Value)
	if hint := spell.Hint(key.Value, names()); hint != "" {
		return err.WithHint("%s", hint)
	}
	return err.WithHint("see: orch help environment")
}

// inProject rejects a root outside of the project if the project's file sets it.
func (k Key) inProject(c *Config, p place) error {
	rel, err := filepath.Rel(p.dir, c.Root)
	if k.Name != "root" || p.dir == p.home || (err == nil && filepath.IsLocal(rel)) {
		return nil
	}
	return p.invalid("the file of a project may not set a root outside of the project").WithHint("use --root or ORCH_ROOT")
}

// textOf returns a YAML node as text: a scalar, a comma-separated list of scalars, a comma-separated list of NAME=VALUE
// for a key with names, or the object of agents, models, limits or retention rules unchanged.
func (k Key) textOf(n *yaml.Node, p place) (string, error) {
	switch k.field(new(Config)).(type) {
	case *map[string]Agent, *Models, *[]CallLimit, *[]retention.Rule:
		text, err := yaml.Marshal(n)
		return string(text), err
	}
	_, names := k.field(new(Config)).(*map[string]Secret)
	switch {
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.SequenceNode, n.Kind == yaml.MappingNode && names:
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", p.invalid("a list holds plain values")
			}
			parts[i] = item.Value
		}
		if n.Kind == yaml.MappingNode {
			parts = pairs(parts)
		}
		return strings.Join(parts, ","), nil
	default:
		return "", p.invalid("this must be a plain value or a list")
	}
}

// pairs joins alternating names and values to NAME=VALUE.
func pairs(parts []string) []string {
	joined := make([]string, 0, len(parts)/2)
	for pair := range slices.Chunk(parts, 2) {
		joined = append(joined, strings.Join(pair, "="))
	}
	return joined
}

func at(name string, n *yaml.Node, dir, home string) place {
	return place{what: fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column), dir: dir, home: home}
}

// syntax converts an error of the YAML parser, which contains only a line, to an error with a position.
func syntax(name string, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := "1"
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		line, message = m[1], strings.TrimPrefix(message, m[0])
	}
	return fault.New(fault.InvalidFormat, "%s", message).WithField(name + ":" + line + ":1")
}
