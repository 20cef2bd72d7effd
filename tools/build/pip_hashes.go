package build

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// hashedRequirement is a requirement with the permitted digests of its wheels, each as algorithm:digest.
type hashedRequirement struct {
	requirement

	digests []string
}

// hashedRequirements returns the requirements of a project that have digests.
func (p project) hashedRequirements() ([]hashedRequirement, error) {
	var all []hashedRequirement
	for _, file := range []string{"requirements.txt", "requirements.lock"} {
		data, err := p.read(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(joinedLines(data)) {
			found := appendRequirement(nil, line)
			digests := regexp.MustCompile(`--hash[= ]\s*([a-z0-9]+:[0-9A-Fa-f]+)`).FindAllStringSubmatch(line, -1)
			if len(found) == 0 || len(digests) == 0 {
				continue
			}
			h := hashedRequirement{requirement: found[0]}
			for _, d := range digests {
				h.digests = append(h.digests, strings.ToLower(d[1]))
			}
			all = append(all, h)
		}
	}
	return all, nil
}

// checkWheels checks the downloaded wheels against the digests in the root and in the workspace.
func (j job) checkWheels(dir string) error {
	rel, err := j.env.Own(dir)
	if err != nil {
		return err
	}
	wheels, err := j.env.Root.ReadDir(rel)
	if err != nil {
		return err
	}
	for _, source := range []project{j.root(), j.project} {
		named, err := source.hashedRequirements()
		if err != nil {
			return err
		}
		for _, wheel := range wheels {
			if err := j.checkWheel(source, named, dir, wheel.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWheel returns CONFLICT when the requirements list digests for this version of the package, and none of them is
// the digest of the wheel.
func (j job) checkWheel(source project, named []hashedRequirement, dir, wheel string) error {
	parts := strings.SplitN(wheel, "-", 3)
	if len(parts) < 3 {
		return nil
	}
	var permitted []string
	for _, h := range named {
		if ok, known := pythonAccepts(h.version, parts[1]); h.name == pypiName(parts[0]) && (ok || !known) {
			permitted = append(permitted, h.digests...)
		}
	}
	if len(permitted) == 0 {
		return nil
	}
	ok, err := j.hasDigest(dir+"/"+wheel, permitted)
	if err == nil && !ok {
		err = fault.New(fault.Conflict, "%s has none of the digests that %s permits", wheel, source.dir).WithField("package_name").WithReason("OTHER_DIGEST").
			WithHint("the index has another file than the one that was pinned: nothing was installed")
	}
	return err
}

// hasDigest reports whether a file has one of the permitted digests.
func (j job) hasDigest(file string, permitted []string) (bool, error) {
	rel, err := j.env.Own(file)
	if err != nil {
		return false, err
	}
	f, err := j.env.Root.Open(rel)
	if err != nil {
		return false, err
	}
	defer f.Close()
	digests := map[string]hash.Hash{"sha256": sha256.New(), "sha384": sha512.New384(), "sha512": sha512.New()}
	if _, err := io.Copy(io.MultiWriter(digests["sha256"], digests["sha384"], digests["sha512"]), f); err != nil {
		return false, fault.New(fault.ExecFailed, "%s cannot be read: %v", file, err)
	}
	for name, digest := range digests {
		if slices.Contains(permitted, name+":"+hex.EncodeToString(digest.Sum(nil))) {
			return true, nil
		}
	}
	return false, nil
}

// joinedLines joins the lines of a requirements file that a backslash continues.
func joinedLines(data []byte) string {
	return strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(string(data))
}
