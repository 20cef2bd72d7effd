package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// CheckImports returns imports that violate the table, and packages without a row.
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

// CheckTable returns names in the table without a package.
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

// CheckRooms returns imports in production code from a room to a higher one, and top-level folders that are not in the
// list of rooms.
func CheckRooms(files []*File, table Table) []string {
	var findings []string
	place := func(dir string) int {
		room, _, _ := strings.Cut(dir, "/")
		return slices.Index(table.Rooms, room)
	}
	for _, file := range files {
		own := place(file.Dir)
		if own < 0 {
			findings = append(findings, file.finding(file.ast.Package, "%s lies in no room: give it a place in test/archtest/table.go", file.Dir))
			continue
		}
		for _, spec := range file.ast.Imports {
			target, ours := strings.CutPrefix(imported(spec), Module+"/")
			if ours && !file.Test && place(target) > own {
				findings = append(findings, file.finding(spec.Pos(), "%s imports %s, which lies above it", file.Dir, target))
			}
		}
	}
	return findings
}

// importCheck is the check of one file.
type importCheck struct {
	file  *File
	table Table
	row   Row
	layer int
}

// testing reports whether the file is not part of the program.
func (c importCheck) testing() bool { return c.file.Test || c.row.Kit }

// verdict returns what is wrong with an import, or "".
func (c importCheck) verdict(target string) string {
	first, _, _ := strings.Cut(target, "/")
	switch dir, own := strings.CutPrefix(target, Module+"/"); {
	case own:
		return c.own(dir)
	case strings.Contains(first, "."):
		return c.library(target)
	default:
		return c.standard(target)
	}
}

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

// clocks returns where a pure file reads a clock; durations and times as values are allowed.
func clocks(file *File) []string {
	var findings []string
	for _, use := range file.uses("time", "Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker") {
		findings = append(findings, file.finding(use.Pos(),
			"time.%s in a pure package: take the time from the events", use.Sel.Name))
	}
	return findings
}

// CheckNames returns packages with a meaningless name, or with the name of a library that they wrap.
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

// find returns the first row for a folder and the index of its layer.
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

// matches reports whether one of the patterns matches the folder.
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
