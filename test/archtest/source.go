// Package archtest checks rules of this code base that no compiler checks: which package may import which, which
// package encapsulates which library, and the house style. Its test reads every Go file of the module in its own
// process. So the test cache depends on these files, and a cached result cannot hide a violation.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of this module.
const Module = "github.com/orch-dev/orch"

// File is one parsed Go file.
type File struct {
	// Path is the slash-separated path below the module's root, Dir its folder.
	Path, Dir string
	// Test is true for _test.go files.
	Test bool

	fset *token.FileSet
	ast  *ast.File
}

// Load parses the Go files below root. Like the go command it skips testdata, vendor, folders that start with "." or
// "_" and other modules. It also skips the workspaces of running tasks.
func Load(root fs.FS) ([]*File, error) {
	var files []*File
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (ignored(name) || otherModule(root, name)):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		file, err := parse(root, name)
		files = append(files, file)
		return err
	})
	return files, err
}

// ignored reports whether a folder is skipped because of its name.
func ignored(dir string) bool {
	base := path.Base(dir)
	hidden := dir != "." && (base[0] == '.' || base[0] == '_')
	return hidden || dir == "Working" || slices.Contains([]string{"testdata", "vendor", "node_modules"}, base)
}

// otherModule reports whether a folder is the root of another module.
func otherModule(root fs.FS, dir string) bool {
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return dir != "." && err == nil
}

func parse(root fs.FS, name string) (*File, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	file := &File{
		Path: name,
		Dir:  path.Dir(name),
		Test: strings.HasSuffix(name, "_test.go"),
		fset: token.NewFileSet(),
	}
	file.ast, err = parser.ParseFile(file.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	return file, err
}

// finding formats a violation as path:line: message.
func (f *File) finding(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.Path, f.line(pos), fmt.Sprintf(format, args...))
}

func (f *File) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// uses returns the references of the file to one of the names in the package importPath.
func (f *File) uses(importPath string, names ...string) []*ast.SelectorExpr {
	local := f.localName(importPath)
	if local == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(f.ast, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, selector.Sel.Name) {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == local {
			found = append(found, selector)
		}
		return true
	})
	return found
}

// localName returns the local name of a package in the file, or "" if the file does not import it.
func (f *File) localName(importPath string) string {
	for _, spec := range f.ast.Imports {
		switch {
		case imported(spec) != importPath:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(importPath)
		}
	}
	return ""
}

// imported returns the path of an import. The parser ensures that the path is a valid string literal.
func imported(spec *ast.ImportSpec) string {
	value, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return value
}
