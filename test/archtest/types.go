package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
)

// MaxMethods bounds the number of methods of a type in production code. The bound is generous: it is meant to find
// types with more than one job.
const MaxMethods = 60

// CheckTypes returns a finding for each type with more than MaxMethods methods. Methods of embedded types are not
// counted.
func CheckTypes(files []*File) []string {
	methods, types := map[string]int{}, map[string]string{}
	for _, file := range files {
		if file.Test || ast.IsGenerated(file.ast) {
			continue
		}
		for _, declaration := range file.ast.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					methods[path.Join(file.Dir, name)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						types[path.Join(file.Dir, t.Name.Name)] = file.finding(t.Pos(), "%s", t.Name.Name)
					}
				}
			}
		}
	}
	return tooMany(methods, types)
}

// tooMany returns a finding for each type with more than MaxMethods methods. at contains the beginning of the finding
// for each type: the position of its declaration and its name.
func tooMany(methods map[string]int, at map[string]string) []string {
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > MaxMethods {
			findings = append(findings, at[name]+fmt.Sprintf(" has %d methods, at most %d: which two jobs does it have?", n, MaxMethods))
		}
	}
	return findings
}

// receiver returns the name of a method's receiver type, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	switch generic := t.(type) {
	case *ast.IndexExpr:
		t = generic.X
	case *ast.IndexListExpr:
		t = generic.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
