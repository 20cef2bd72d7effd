package archtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/orch-dev/orch/test/requirements"
)

// CheckRequirements returns a finding for each error in the list of requirements below root. It also returns a finding
// for each id in code, documentation, scripts and test stories that the list does not define: such an id is useless to
// a reader.
func CheckRequirements(root fs.FS) ([]string, error) {
	list, err := requirements.Load(root)
	if err != nil {
		return nil, err
	}
	findings, ids := list.Check(), list.IDs()
	err = requirements.Files(root, func(name, text string) error {
		for _, m := range requirements.Mentions(text, nil) {
			if !slices.Contains(ids, m.ID) && !slices.Contains(notIDs(), m.ID) {
				line := 1 + strings.Count(text[:m.Offset], "\n")
				findings = append(findings, fmt.Sprintf("%s:%d: %s is in no rule of %s", name, line, m.ID, requirements.ListFile))
			}
		}
		return nil
	})
	return findings, err
}

// notIDs returns words that only look like ids: A-1 is an invalid step id in the tests of plans.
func notIDs() []string { return []string{"A-1"} }
