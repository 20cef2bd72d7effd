package proc

import (
	"maps"
	"path/filepath"
	"slices"
)

// Bounds are what bounds every command of one call, whatever the command itself says.
type Bounds struct {
	// Hidden names places that no command touches, but for what Show and Own name below them.
	Hidden []string
	// Denied names places that a command touches only if its Sandbox.Undeny holds them.
	Denied []string
	// Show names places that each command reads, Own those that a command which may write anywhere writes as well.
	Show, Own []string
	// Env is added to the environment of each command, which wins over it.
	Env map[string]string
}

// Within returns a Runner whose commands are bounded by what bounds says when they start. It shares everything else with r,
// which is the one to close.
func (r *Runner) Within(bounds func() (Bounds, error)) *Runner {
	bounded := *r
	bounded.bounds = func(c *Command) error {
		b, err := bounds()
		if err != nil {
			return err
		}
		b.apply(c)
		return nil
	}
	return &bounded
}

// apply narrows a command.
func (b Bounds) apply(c *Command) {
	s := &c.Sandbox
	denied := slices.DeleteFunc(slices.Clone(b.Denied), func(place string) bool { return withinAny(place, s.Undeny) })
	own := func(place string) bool { return withinAny(place, b.Show) || withinAny(place, b.Own) }
	closed := func(place string) bool {
		place = filepath.Clean(place)
		return withinAny(place, denied) || withinAny(place, b.Hidden) && !own(place)
	}
	read, write := slices.DeleteFunc(slices.Clone(s.Read), closed), slices.DeleteFunc(slices.Clone(s.Write), closed)
	if len(write) > 0 {
		write = append(write, b.Own...)
	}
	s.Read, s.Write = slices.Concat(read, b.Show), write
	s.Hidden = slices.Concat(s.Hidden, b.Hidden, denied)
	env := maps.Clone(b.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	c.Env = env
}

// withinAny reports whether a clean path is one of the places or lies below one.
func withinAny(path string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return within(path, filepath.Clean(place)) })
}
