package build

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// requirement is a dependency in a manifest or lock file.
type requirement struct {
	// name is the canonical name of the package.
	name string
	// version is the permitted range, "" for any.
	version string
	// elsewhere is true for a package from outside the registry; version then describes its source.
	elsewhere bool
	// replaces is true when the package replaces another requirement.
	replaces bool
	// file is the file with the requirement, unless it is the first manifest of the manager.
	file string
}

// pin contains the versions of one package that a project permits.
type pin struct {
	// ranges are the distinct version ranges in the manifests of the project; empty when the manifests do not name the
	// package.
	ranges []string
	// locked is the version in the lock file, "" for none.
	locked string
}

// named reports whether a manifest names the package.
func (p pin) named() bool { return len(p.ranges) > 0 }

// String returns the pin as text for people.
func (p pin) String() string {
	if p.locked != "" {
		return p.locked
	}
	return strings.Join(p.ranges, " and ")
}

// pin returns the pin of a package in a project. If several requirements provide the package, it uses those with the
// longest name. For go that is the closest enclosing module; for other package managers it is the package itself.
func (m manager) pin(p project, name string) (pin, error) {
	all, err := m.required(p)
	if err != nil {
		return pin{}, err
	}
	all = slices.DeleteFunc(all, func(r requirement) bool { return !m.provides(r.name, name) })
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
			return pin{}, fault.New(fault.InvalidFormat, "%s in %s takes %s from outside the registry", m.manifests[0], p.dir, name).
				WithField("package_name")
		}
		found.ranges = append(found.ranges, r.version)
	}
	if found.named() {
		found.locked, err = m.locked(p, name)
	}
	return found, err
}

// version returns the version to request from the package manager to stay within a pin: the locked version, or the
// ranges. ok is false when the package manager does not accept the ranges as an argument.
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
	return strings.Join(ranges, m.separator), p.named()
}

// covers reports whether a version, a range or a tag stays within a pin. When in doubt it returns false.
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

// target returns the target for the requested package. It is known only if the root names the package in files that are
// older than the task: a manifest that the task could have written must not approve a package (S0-141).
func (j job) target() tools.Target {
	t := tools.Target{Kind: tools.Package, Name: j.manager.name + ":" + j.name, Version: j.want}
	root := j.root()
	switch {
	case j.rootPin.named() && !j.manager.covers(j.rootPin, j.want):
		t.Pinned = j.rootPin.String()
	case j.rootPin.named() && j.otherRegistryNote != "":
		t.Note = j.otherRegistryNote
	case j.rootPin.named() && root.olderThan(j.env.Since, slices.Concat(j.manager.manifests, j.manager.locks)):
		t.Known = true
	case j.rootPin.named():
		t.Note = "a manifest of the project names it, but it was changed after the task began"
	case j.workspacePin.named():
		t.Note = "a manifest names it in the workspace, where this task itself writes"
	}
	return t
}

// verify checks that the installed version matches the version that the policy checked.
func (j job) verify(version string) error {
	if version == "" {
		return fault.New(fault.ExecFailed, "%s succeeded, but %s is not installed", j.manager.name, j.name)
	}
	if ok, known := j.manager.accepts(j.want, version); j.want != "" && known && !ok {
		return fault.New(fault.ExecFailed, "%s has installed %s %s, not %s", j.manager.name, j.name, version, j.want).
			WithReason("OTHER_VERSION").WithHint("check which other files in the workspace require it; the installed version was not approved")
	}
	return nil
}
