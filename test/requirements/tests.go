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

// Test is a test that names a rule: a function of test code, or a file that a test reads.
type Test struct {
	// Name is the function with its package, such as tools/git.TestPush, or the name of the file.
	Name string
	// File is the path of the file below the root.
	File string
}

// Tests returns, for each id, the tests that name it: in the comment above them, in their code, or at the top of a
// story.
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

// isTest reports whether a file is test code, a test kit, or a story.
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

// owners returns a function that maps an offset of a file to the test that contains it.
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
			// A comment before a function belongs to it.
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
