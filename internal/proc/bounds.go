package proc

import (
	"maps"
	"path/filepath"
	"slices"
)

// Bounds are limits for every command of one call. They override the settings of a command.
type Bounds struct {
	// Hidden are paths that no command may access, except the paths of Show and Own below them.
	Hidden []string
	// Denied are paths that a command may access only if its Sandbox.Undeny contains them.
	Denied []string
	// Show are paths that every command may read. Own are paths that a command may also write if it may write anywhere
	// at all.
	Show, Own []string
	// Env is added to the environment of each command. Variables of the command take precedence.
	Env map[string]string
}

// Within returns a Runner that calls bounds for each command and applies the result. It shares everything else with r;
// only r must be closed.
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

// apply restricts a command to the bounds.
func (b Bounds) apply(c *Command) {
	s := &c.Sandbox
	denied := slices.DeleteFunc(slices.Clone(b.Denied), func(place string) bool { return withinAny(place, s.Undeny) })
	own := func(place string) bool { return withinAny(place, b.Show) || withinAny(place, b.Own) }
	excluded := func(place string) bool {
		place = filepath.Clean(place)
		return withinAny(place, denied) || withinAny(place, b.Hidden) && !own(place)
	}
	read, write := slices.DeleteFunc(slices.Clone(s.Read), excluded), slices.DeleteFunc(slices.Clone(s.Write), excluded)
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

// withinAny reports whether a clean path is one of the places or below one.
func withinAny(path string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return within(path, filepath.Clean(place)) })
}
