package build

import (
	"cmp"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxExtraPackages limits the packages that one installation may download besides the requested one. maxExtraFiles
// limits the manifests that may name such packages.
const (
	maxExtraPackages = 100
	maxExtraFiles    = 200
)

// targets returns the requested package, and every other package that the package manager would download because of
// files in the workspace. The task may have written those files.
func (j job) targets() ([]tools.Target, error) {
	all := []tools.Target{j.target()}
	if j.manager.extraPackages == nil {
		return all, nil
	}
	files, err := j.files()
	if err != nil {
		return nil, err
	}
	extra, err := j.manager.extraPackages(j.cfg, j.project, files)
	if err != nil {
		return nil, err
	}
	root := j.root()
	rootRequirements, err := j.manager.extraPackages(j.cfg, root, files)
	if err != nil {
		return nil, err
	}
	unmodified := root.olderThan(j.env.Since, files)
	for _, r := range extra {
		requested := !r.elsewhere && !r.replaces && j.manager.provides(r.name, j.name)
		sameInRoot := unmodified && slices.Contains(rootRequirements, r)
		if requested || sameInRoot || j.manager.installed != nil && j.manager.installed(j.project, r) {
			continue
		}
		if t := j.extraTarget(root, r, unmodified); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	if len(all) > maxExtraPackages {
		return nil, fault.New(fault.ValidationError, "the files in the workspace make %s install %d packages that the project does not pin, at most %d can be approved at once", j.manager.name, len(all), maxExtraPackages).
			WithHint("restore the manifests and lock files of the root in the workspace")
	}
	return all, nil
}

// files returns the manifests and lock files in the workspace that the package manager reads.
func (j job) files() ([]string, error) {
	files := slices.Concat(j.manager.manifests, j.manager.locks)
	if j.manager.extraFiles == nil {
		return files, nil
	}
	more, err := j.manager.extraFiles(j.project)
	for _, file := range more {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, err
}

// extraTarget returns the target of a package that is installed besides the requested one.
func (j job) extraTarget(root project, r requirement, unmodified bool) tools.Target {
	t := tools.Target{Kind: tools.Package, Name: j.manager.name + ":" + shorten(r.name), Version: shorten(r.version)}
	rootPin, err := j.manager.pin(root, r.name)
	switch {
	case err == nil && rootPin.named() && j.manager.covers(rootPin, r.version) && !r.elsewhere && unmodified:
		t.Known = true
	case err == nil && rootPin.named() && !r.elsewhere:
		t.Pinned = rootPin.String()
	case r.elsewhere:
		t.Pinned = cmp.Or(rootPin.String(), "the registry")
		t.Note = cmp.Or(r.file, j.manager.manifests[0]) + " in the workspace takes it from outside the registry"
	default:
		t.Note = cmp.Or(r.file, j.manager.manifests[0]) + " in the workspace makes " + j.manager.name + " install it too"
	}
	return t
}

// checkUnchanged returns CONFLICT when the call would install a package that the policy has not permitted.
func (j job) checkUnchanged() error {
	targets, err := j.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if j.env.Allows == nil || !j.env.Allows(t) {
			return fault.New(fault.Conflict, "the manifests have changed since the policy checked the call, which would now install %s %s", t.Name, t.Version).
				WithHint("make the call again")
		}
	}
	return nil
}
