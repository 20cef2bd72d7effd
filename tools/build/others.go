package build

import (
	"cmp"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// mostOthers bounds what one installation may fetch beside the package that is asked for, and mostMembers the manifests that say so.
const (
	mostOthers  = 100
	mostMembers = 200
)

// targets are the package, and what else the files in the workspace, which the task may have written, make the
// manager fetch with it.
func (j job) targets() ([]tools.Target, error) {
	all := []tools.Target{j.target()}
	if j.manager.others == nil {
		return all, nil
	}
	files, err := j.files()
	if err != nil {
		return nil, err
	}
	others, err := j.manager.others(j.cfg, j.project, files)
	if err != nil {
		return nil, err
	}
	root := j.root()
	own, err := j.manager.others(j.cfg, root, files)
	if err != nil {
		return nil, err
	}
	settled := root.olderThan(j.env.Since, files)
	for _, r := range others {
		if !r.elsewhere && !r.replaces && j.manager.holds(r.name, j.name) || settled && slices.Contains(own, r) || j.manager.present != nil && j.manager.present(j.project, r) {
			continue
		}
		if t := j.other(root, r, settled); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	if len(all) > mostOthers {
		return nil, fault.New(fault.ValidationError, "the files in the workspace make %s install %d packages that the project does not pin, at most %d can be asked for at once", j.manager.name, len(all), mostOthers).
			WithHint("let the manifests and lock files in the workspace be those of the root")
	}
	return all, nil
}

// files are the manifests and lock files that the manager obeys in the workspace.
func (j job) files() ([]string, error) {
	files := slices.Concat(j.manager.manifests, j.manager.locks)
	if j.manager.members == nil {
		return files, nil
	}
	more, err := j.manager.members(j.project)
	for _, file := range more {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, err
}

// other is the target of a package that is installed beside the one that was asked for.
func (j job) other(root project, r requirement, settled bool) tools.Target {
	t := tools.Target{Kind: tools.Package, Name: j.manager.name + ":" + shorten(r.name), Version: shorten(r.version)}
	own, err := j.manager.pin(root, r.name)
	switch {
	case err == nil && own.named() && j.manager.covers(own, r.version) && !r.elsewhere && settled:
		t.Known = true
	case err == nil && own.named() && !r.elsewhere:
		t.Pinned = own.String()
	case r.elsewhere:
		t.Pinned = cmp.Or(own.String(), "the registry")
		t.Note = cmp.Or(r.file, j.manager.manifests[0]) + " in the workspace takes it from elsewhere than the registry"
	default:
		t.Note = cmp.Or(r.file, j.manager.manifests[0]) + " in the workspace makes " + j.manager.name + " install it too"
	}
	return t
}

// unchanged reports a conflict when the call would install what it was not judged by.
func (j job) unchanged() error {
	targets, err := j.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if j.env.Allows == nil || !j.env.Allows(t) {
			return fault.New(fault.Conflict, "the manifests have changed since the call was judged: it would install %s %s", t.Name, t.Version).
				WithHint("make the call again")
		}
	}
	return nil
}
