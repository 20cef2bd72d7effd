package build

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// acceptance reports whether the range want contains a version. known is false if want is not a range, such as a tag,
// or cannot be parsed.
type acceptance func(want, version string) (ok, known bool)

// npmAccepts implements acceptance for npm. As in npm, a range contains a prerelease only when it names a prerelease
// of the same version.
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

// cargoAccepts implements acceptance for cargo. Its ranges are those of npm, except that a version without an operator
// permits compatible versions, too.
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

// goAccepts implements acceptance for go. A version permits only itself; a commit hash permits only the pseudo-version
// of that commit.
func goAccepts(want, version string) (ok, known bool) {
	const pseudoVersionHashLen = 12
	switch {
	case want == "latest":
		return false, false
	case regexp.MustCompile(`^[0-9a-f]{7,40}$`).MatchString(want):
		return strings.Contains(version, "-"+want[:min(len(want), pseudoVersionHashLen)]), true
	}
	return want == version, true
}

// pythonRanges matches lists of version specifiers.
var pythonRanges = regexp.MustCompile(`^((==|!=|<=|>=|<|>|~=)[0-9][0-9A-Za-z.!+]*(\.\*)?,?)*$`)

// pythonAccepts implements acceptance for a list of version specifiers, or a single version. It orders only releases
// (1.2.3); other versions are just tested for equality.
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

// pythonSpecifier reports whether one specifier permits a version. known is false if it cannot compare them.
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
	want, boundIsRelease := release(prefix)
	if !isRelease || !boundIsRelease {
		return false, isRelease && boundIsRelease
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

// release parses a version that consists only of numbers.
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

// compare compares two releases; missing numbers are zero.
func compare(a, b []int) int {
	for i := range max(len(a), len(b)) {
		if d := component(a, i) - component(b, i); d != 0 {
			return d
		}
	}
	return 0
}

// startsWith reports whether a release begins with the numbers of prefix.
func startsWith(version, prefix []int) bool {
	for i, n := range prefix {
		if component(version, i) != n {
			return false
		}
	}
	return true
}

// component returns the number at an index of a release, 0 beyond its end.
func component(numbers []int, i int) int {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}
