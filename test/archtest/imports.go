package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// CheckImports returns a finding for each import that violates the table, and for each package without a row.
func CheckImports(files []*File, table Table) []string {
	var findings []string
	for _, file := range files {
		layer, row, ok := table.find(file.Dir)
		if !ok {
			findings = append(findings, file.finding(file.ast.Package,
				"package %s has no row: say in test/archtest/table.go what it may import", file.Dir))
			continue
		}
		check := importCheck{file: file, table: table, row: row, layer: layer}
		for _, spec := range file.ast.Imports {
			if fault := check.verdict(imported(spec)); fault != "" {
				findings = append(findings, file.finding(spec.Pos(), "%s", fault))
			}
		}
		if row.Pure && !file.Test {
			findings = append(findings, clocks(file)...)
		}
	}
	return findings
}

// CheckTable returns a finding for each name in the table that is not a package.
func CheckTable(files []*File, table Table) []string {
	var findings []string
	check := func(where string, names ...string) {
		for _, name := range names {
			exists := func(file *File) bool { return matches([]string{name}, file.Dir) }
			if name != Below && !slices.ContainsFunc(files, exists) {
				findings = append(findings, "test/archtest/table.go: "+where+": no package is called "+name)
			}
		}
	}
	for _, layer := range table.Layers {
		for _, row := range layer.Rows {
			check("a row", row.Package)
			check(row.Package, row.Imports...)
		}
	}
	for _, library := range table.Libraries {
		check(library.Path, library.Users...)
	}
	return findings
}

// CheckRooms checks the order of the top-level folders, Table.Rooms. It returns a finding for each import in production
// code of a folder that is later in the list, and for each folder that is not in the list.
func CheckRooms(files []*File, table Table) []string {
	var findings []string
	position := func(dir string) int {
		room, _, _ := strings.Cut(dir, "/")
		return slices.Index(table.Rooms, room)
	}
	for _, file := range files {
		own := position(file.Dir)
		if own < 0 {
			findings = append(findings, file.finding(file.ast.Package, "%s lies in no room: give it a place in test/archtest/table.go", file.Dir))
			continue
		}
		for _, spec := range file.ast.Imports {
			target, ours := folderOf(imported(spec))
			if ours && !file.Test && position(target) > own {
				findings = append(findings, file.finding(spec.Pos(), "%s imports %s, which lies above it", file.Dir, target))
			}
		}
	}
	return findings
}

// folderOf returns the folder of an import path; "." for the root of the module, false for another module.
func folderOf(target string) (dir string, own bool) {
	if target == Module {
		return ".", true
	}
	return strings.CutPrefix(target, Module+"/")
}

// importCheck is the state of checking the imports of one file.
type importCheck struct {
	file  *File
	table Table
	row   Row
	layer int
}

// testing reports whether the file is test code: a test or part of a Kit.
func (c importCheck) testing() bool { return c.file.Test || c.row.Kit }

// verdict returns the violation of an import, or "" if the import is allowed.
func (c importCheck) verdict(target string) string {
	first, _, _ := strings.Cut(target, "/")
	switch dir, own := folderOf(target); {
	case own:
		return c.own(dir)
	case strings.Contains(first, "."):
		return c.library(target)
	default:
		return c.standard(target)
	}
}

// own is verdict for a package of this module.
func (c importCheck) own(dir string) string {
	layer, row, ok := c.table.find(dir)
	switch {
	case !ok:
		return "package " + dir + " has no row in test/archtest/table.go"
	case c.testing() && (dir == c.file.Dir || row.Kit || layer <= c.layer):
		return ""
	case matches(c.row.Imports, dir):
		return ""
	case slices.Contains(c.row.Imports, Below) && layer < c.layer && !row.Kit:
		return ""
	default:
		return c.row.Package + " may not import " + dir
	}
}

// library is verdict for a package of another module.
func (c importCheck) library(target string) string {
	for _, lib := range c.table.Libraries {
		switch {
		case !within(target, lib.Path):
		case c.testing() && !lib.Hidden, matches(lib.Users, c.file.Dir):
			return ""
		case lib.TestOnly:
			return lib.Path + " is for tests only"
		default:
			return lib.Path + " is for " + strings.Join(lib.Users, ", ") + " only"
		}
	}
	return target + " is no library of this module: enter it in test/archtest/table.go and docs/reference/dependencies.md"
}

// standard is verdict for a package of the standard library.
func (c importCheck) standard(target string) string {
	in := func(roots ...string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return within(target, root) })
	}
	switch {
	case c.testing():
		return ""
	case in("testing", "net/http/httptest"):
		return target + " is for tests only"
	case c.row.Pure && in("os", "net", "context", "syscall", "math/rand", "crypto/rand"):
		return c.row.Package + " is pure: it may not import " + target
	default:
		return ""
	}
}

// clocks returns a finding for each use of a clock in a file of a pure package. Durations and times as values are
// allowed.
func clocks(file *File) []string {
	var findings []string
	for _, use := range file.uses("time", "Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker") {
		findings = append(findings, file.finding(use.Pos(),
			"time.%s in a pure package: take the time from the events", use.Sel.Name))
	}
	return findings
}

// CheckNames returns a finding for each package that has a meaningless name, or the name of a library that it wraps.
func CheckNames(files []*File) []string {
	var findings []string
	for _, file := range files {
		name := strings.TrimSuffix(file.ast.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "types", "manager", "helper", "helpers"}, name) {
			findings = append(findings, file.finding(file.ast.Name.Pos(), "package %s: name what it is about", name))
		}
		wraps := func(spec *ast.ImportSpec) bool {
			target := imported(spec)
			return !within(target, Module) && strings.Contains(target, ".") && libraryName(target) == name
		}
		if !file.Test && slices.ContainsFunc(file.ast.Imports, wraps) {
			findings = append(findings, file.finding(file.ast.Name.Pos(), "package %s has the name of a library that it wraps", name))
		}
	}
	return findings
}

// libraryName guesses the package name of an import path: its last element that is not a major version.
func libraryName(target string) string {
	base := path.Base(target)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(target))
	}
	return strings.TrimSuffix(base, ".go")
}

// find returns the first row that matches a folder, and the index of its layer.
func (t Table) find(dir string) (layer int, row Row, ok bool) {
	for i, candidate := range t.Layers {
		for _, row := range candidate.Rows {
			if matches([]string{row.Package}, dir) {
				return i, row, true
			}
		}
	}
	return 0, Row{}, false
}

// matches reports whether one of the patterns, which have the form of Row.Package, matches a folder.
func matches(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		parent, open := strings.CutSuffix(pattern, "/*")
		return pattern == dir || open && path.Dir(dir) == parent
	})
}

// within reports whether an import path is root or below it.
func within(target, root string) bool {
	return target == root || strings.HasPrefix(target, root+"/")
}
