package build

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// targets are the package, and what else the manifest in the workspace, which the task may have written, makes the
// manager fetch with it.
func (j job) targets() ([]tools.Target, error) {
	all := []tools.Target{j.target()}
	if j.manager.others == nil {
		return all, nil
	}
	others, err := j.manager.others(j.project)
	if err != nil {
		return nil, err
	}
	root := project{env: j.env, dir: j.env.Root.Name()}
	own, err := j.manager.required(root)
	if err != nil {
		return nil, err
	}
	for _, r := range others {
		if j.manager.holds(r.name, j.name) || slices.Contains(own, r) && j.settled(root) {
			continue
		}
		if t := j.other(root, r); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all, nil
}

// other is the target of a package that is installed beside the one that was asked for.
func (j job) other(root project, r requirement) tools.Target {
	t := tools.Target{Kind: tools.Package, Name: j.manager.name + ":" + shorten(r.name), Version: shorten(r.version)}
	own, err := j.manager.pin(root, r.name)
	switch {
	case err == nil && own.named() && j.manager.covers(own, r.version) && !r.elsewhere && j.settled(root):
		t.Known = true
	case err == nil && own.named():
		t.Pinned = own.String()
	default:
		t.Note = j.manager.manifests[0] + " in the workspace makes " + j.manager.name + " install it too"
	}
	return t
}

// settled reports whether the manifests in the root are as they were before the task.
func (j job) settled(root project) bool {
	return root.olderThan(j.env.Since, slices.Concat(j.manager.manifests, j.manager.locks))
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

// missingNode returns what package.json names or puts in the place of other packages, unless it is there already.
func missingNode(p project) ([]requirement, error) {
	all, err := inPackageJSON(p)
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Overrides   map[string]any `json:"overrides"`
		Resolutions map[string]any `json:"resolutions"`
	}
	if err := p.readJSON("package.json", &manifest); err != nil {
		return nil, err
	}
	all = appendOverrides(appendOverrides(all, "", manifest.Overrides), "", manifest.Resolutions)
	return slices.DeleteFunc(all, func(r requirement) bool { return !r.elsewhere && p.holdsNode(r) }), nil
}

// appendOverrides reads an object of versions, in which "." is the package that the object is for.
func appendOverrides(all []requirement, of string, overrides map[string]any) []requirement {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		value := overrides[name]
		if name == "." {
			name = of
		}
		switch version := value.(type) {
		case string:
			all = append(all, requirement{name: name, version: version, elsewhere: !regexp.MustCompile(npmRanges).MatchString(version)})
		case map[string]any:
			all = appendOverrides(all, name, version)
		}
	}
	return all
}

// holdsNode reports whether a package is installed in a version that is wanted and that the lock file names, so that it is not
// fetched.
func (p project) holdsNode(r requirement) bool {
	data, err := p.read("node_modules/" + r.name + "/package.json")
	var manifest struct {
		Version string `json:"version"`
	}
	if err != nil || json.Unmarshal(data, &manifest) != nil {
		return false
	}
	if locked, err := lockedNPM(p, r.name); err != nil || locked != "" && locked != manifest.Version {
		return false
	}
	ok, _ := npmAccepts(r.version, manifest.Version)
	return ok || r.version == "" && manifest.Version != ""
}
