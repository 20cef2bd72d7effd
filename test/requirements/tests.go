package requirements

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Test is a test that mentions a rule: a function of test code, or a test story, which is a script file that a test
// runs.
type Test struct {
	// Name is the function with its package, such as tools/git.TestPush, or the base name of the file.
	Name string
	// File is the path of the file below the root.
	File string
}

// Tests returns the tests that mention each id: in the comment of the function, in its code, or in a test story. known
// are the ids of the list.
func Tests(root fs.FS, known []string) (map[string][]Test, error) {
	tests := map[string][]Test{}
	err := Files(root, func(name, text string) error {
		if !isTest(name, text) {
			return nil
		}
		mentions := Mentions(text, known)
		if len(mentions) == 0 {
			return nil
		}
		at, err := owners(name, text)
		if err != nil {
			return err
		}
		for _, m := range mentions {
			if test := (Test{at(m.Offset), name}); !slices.Contains(tests[m.ID], test) {
				tests[m.ID] = append(tests[m.ID], test)
			}
		}
		return nil
	})
	for _, list := range tests {
		slices.SortFunc(list, func(a, b Test) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File)) })
	}
	return tests, err
}

// isTest reports whether a file is a Go test, a Go file that imports testing, or a test story.
func isTest(name, text string) bool {
	switch path.Ext(name) {
	case ".go":
		return strings.HasSuffix(name, "_test.go") || strings.Contains(text, "\n\t\"testing\"\n")
	case ".txt", ".txtar":
		return strings.Contains(name, "/testdata/")
	default:
		return false
	}
}

// owners returns a function that maps an offset in a file to the name of the test there.
func owners(name, text string) (func(offset int) string, error) {
	if path.Ext(name) != ".go" {
		return func(int) string { return path.Base(name) }, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return func(offset int) string {
		for _, declaration := range file.Decls {
			// A comment before a function belongs to the function.
			if offset < fset.Position(declaration.End()).Offset {
				if function, ok := declaration.(*ast.FuncDecl); ok {
					return path.Dir(name) + "." + function.Name.Name
				}
				break
			}
		}
		return path.Base(name)
	}, nil
}
