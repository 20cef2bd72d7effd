package build

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// requirement is a package as a manifest names it.
type requirement struct {
	// name is canonical.
	name string
	// version is the range that the manifest permits, "" for any.
	version string
	// elsewhere is true for a package that does not come from the registry. Its version says from where.
	elsewhere bool
	// replaces is true when it takes the place of what something else asks for.
	replaces bool
	// file is what names it when that is not the first manifest of the manager.
	file string
}

// pin is what a project says of one package.
type pin struct {
	// ranges are what its manifests permit, each once. There are none when they do not name the package.
	ranges []string
	// locked is the one version that the lock file of the project names, "" for none.
	locked string
}

func (p pin) named() bool { return len(p.ranges) > 0 }

// String is the pin as people read it.
func (p pin) String() string {
	if p.locked != "" {
		return p.locked
	}
	return strings.Join(p.ranges, " and ")
}

// pin returns what a project says of a package, by the requirements with the longest name that holds it: of go the
// modules, of all others the package itself.
func (m manager) pin(p project, name string) (pin, error) {
	all, err := m.required(p)
	if err != nil {
		return pin{}, err
	}
	all = slices.DeleteFunc(all, func(r requirement) bool { return !m.holds(r.name, name) })
	var found pin
	longest := 0
	for _, r := range all {
		longest = max(longest, len(r.name))
	}
	for _, r := range all {
		switch {
		case len(r.name) < longest || slices.Contains(found.ranges, r.version):
			continue
		case r.elsewhere:
			return pin{}, fault.New(fault.InvalidFormat, "%s in %s takes %s from elsewhere than the registry", m.manifests[0], p.dir, name).
				WithField("package_name")
		}
		found.ranges = append(found.ranges, r.version)
	}
	if found.named() {
		found.locked, err = m.locked(p, name)
	}
	return found, err
}

// version returns what the manager is asked for to stay within a pin: the locked version, or the range. ok is false
// where that cannot be said.
func (m manager) version(p pin) (text string, ok bool) {
	if p.locked != "" {
		return p.locked, true
	}
	ranges := slices.DeleteFunc(slices.Clone(p.ranges), func(r string) bool { return r == "" })
	for _, r := range ranges {
		if !m.ranges.MatchString(r) || len(ranges) > 1 && strings.Contains(r, "|") {
			return "", false
		}
	}
	return strings.Join(ranges, m.and), p.named()
}

// covers reports whether a version, a range or a tag stays within a pin. In doubt it does not.
func (m manager) covers(p pin, want string) bool {
	if text, ok := m.version(p); ok && want == text {
		return true
	}
	outside := func(r string) bool {
		ok, _ := m.accepts(r, want)
		return r != "" && r != want && !ok
	}
	return p.named() && !slices.ContainsFunc(p.ranges, outside)
}

// target is what the installation is judged by. The project is what lies in the root and was there before the task: a
// manifest that the task has written, or could have, must not speak for it (S0-141).
func (j job) target() tools.Target {
	t := tools.Target{Kind: tools.Package, Name: j.manager.name + ":" + j.name, Version: j.want}
	root := j.root()
	switch {
	case j.pinned.named() && !j.manager.covers(j.pinned, j.want):
		t.Pinned = j.pinned.String()
	case j.pinned.named() && j.foreign != "":
		t.Note = j.foreign
	case j.pinned.named() && root.olderThan(j.env.Since, slices.Concat(j.manager.manifests, j.manager.locks)):
		t.Known = true
	case j.pinned.named():
		t.Note = "a manifest of the project names it, but it was changed after the task began"
	case j.listed.named():
		t.Note = "a manifest names it in the workspace, where this task itself writes"
	}
	return t
}

// verify holds what is installed against what the call was judged by.
func (j job) verify(version string) error {
	if version == "" {
		return fault.New(fault.ExecFailed, "%s ended well, but %s is not installed", j.manager.name, j.name)
	}
	if ok, known := j.manager.accepts(j.want, version); j.want != "" && known && !ok {
		return fault.New(fault.ExecFailed, "%s has installed %s %s, not %s", j.manager.name, j.name, version, j.want).
			WithReason("OTHER_VERSION").WithHint("see what else in the workspace asks for it; what is installed was not approved")
	}
	return nil
}
