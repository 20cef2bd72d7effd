package build

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// acceptance reports whether a range holds one version. known is false for what is no range, such as a tag, and for
// ranges that cannot be read.
type acceptance func(want, version string) (ok, known bool)

// npmAccepts judges ranges of npm. A prerelease is held only by a range that names one of the same version, as npm does.
func npmAccepts(want, version string) (ok, known bool) {
	constraint, err := semver.NewConstraint(want)
	if err != nil {
		return false, false
	}
	v, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return false, true
	}
	if v.Prerelease() != "" && !strings.Contains(want, fmt.Sprintf("%d.%d.%d-", v.Major(), v.Minor(), v.Patch())) {
		return false, true
	}
	return constraint.Check(v), true
}

// cargoAccepts judges requirements of cargo: those of npm, in which a version without an operator permits what is
// compatible with it.
func cargoAccepts(want, version string) (ok, known bool) {
	parts := strings.Split(want, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if part != "" && part[0] >= '0' && part[0] <= '9' {
			part = "^" + part
		}
		parts[i] = part
	}
	return npmAccepts(strings.Join(parts, ", "), strings.TrimPrefix(version, "="))
}

// goAccepts holds a version against itself, and a commit against the pseudo-version that go makes of it.
func goAccepts(want, version string) (ok, known bool) {
	const inPseudoVersion = 12
	switch {
	case want == "latest":
		return false, false
	case regexp.MustCompile(`^[0-9a-f]{7,40}$`).MatchString(want):
		return strings.Contains(version, "-"+want[:min(len(want), inPseudoVersion)]), true
	}
	return want == version, true
}

// pythonRanges are lists of version specifiers.
var pythonRanges = regexp.MustCompile(`^((==|!=|<=|>=|<|>|~=)[0-9][0-9A-Za-z.!+]*(\.\*)?,?)*$`)

// pythonAccepts judges a list of version specifiers, or a version alone. It compares releases (1.2.3); of all other
// versions it knows only whether they are the same text.
func pythonAccepts(want, version string) (ok, known bool) {
	if want != "" && want[0] >= '0' && want[0] <= '9' {
		want = "==" + want
	}
	if !pythonRanges.MatchString(want) {
		return false, false
	}
	for specifier := range strings.SplitSeq(strings.TrimSuffix(want, ","), ",") {
		if ok, known := pythonSpecifier(specifier, version); !ok || !known {
			return false, known
		}
	}
	return true, true
}

func pythonSpecifier(specifier, version string) (ok, known bool) {
	if specifier == "" {
		return true, true
	}
	bound := strings.TrimLeft(specifier, "=!<>~")
	operator := strings.TrimSuffix(specifier, bound)
	if operator == "==" && bound == version {
		return true, true
	}
	have, isRelease := release(version)
	prefix, wildcard := strings.CutSuffix(bound, ".*")
	want, bounded := release(prefix)
	if !isRelease || !bounded {
		return false, isRelease && bounded
	}
	if wildcard {
		return startsWith(have, want) == (operator == "=="), operator == "==" || operator == "!="
	}
	order := compare(have, want)
	switch operator {
	case "==":
		return order == 0, true
	case "!=":
		return order != 0, true
	case "<":
		return order < 0, true
	case "<=":
		return order <= 0, true
	case ">":
		return order > 0, true
	case ">=":
		return order >= 0, true
	default: // ~=
		return order >= 0 && startsWith(have, want[:len(want)-1]), len(want) > 1
	}
}

// release reads the numbers of a version that has nothing else.
func release(version string) ([]int, bool) {
	var numbers []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}

// compare orders two releases; missing numbers are zero.
func compare(a, b []int) int {
	for i := range max(len(a), len(b)) {
		if d := at(a, i) - at(b, i); d != 0 {
			return d
		}
	}
	return 0
}

func startsWith(version, prefix []int) bool {
	for i, n := range prefix {
		if at(version, i) != n {
			return false
		}
	}
	return true
}

func at(numbers []int, i int) int {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}
