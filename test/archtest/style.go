package archtest

import "go/ast"

// The limits of production code, in lines.
const (
	MaxFileLines     = 500
	MaxFunctionLines = 80
)

// CheckStyle returns violations of the house style: init functions, sleeps, dot imports, and files and functions that
// are too long. The limits of length apply only to production code that is not generated.
func CheckStyle(files []*File) []string {
	var findings []string
	for _, file := range files {
		findings = append(findings, statements(file)...)
		if !file.Test && !ast.IsGenerated(file.ast) {
			findings = append(findings, lengths(file)...)
		}
	}
	return findings
}

// statements returns the init functions, sleeps and dot imports of a file.
func statements(file *File) []string {
	var findings []string
	for _, declaration := range file.ast.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Recv == nil && function.Name.Name == "init" {
			findings = append(findings, file.finding(function.Pos(), "init runs unseen: build the value where it is used"))
		}
	}
	for _, sleep := range file.uses("time", "Sleep") {
		findings = append(findings, file.finding(sleep.Pos(), "time.Sleep: wait on a channel, a timer or synctest"))
	}
	for _, spec := range file.ast.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			findings = append(findings, file.finding(spec.Pos(), "dot imports hide where a name comes from"))
		}
	}
	return findings
}

// lengths returns findings for a file that is too long, and for its functions that are too long.
func lengths(file *File) []string {
	var findings []string
	if lines := file.fset.File(file.ast.FileStart).LineCount(); lines > MaxFileLines {
		findings = append(findings, file.finding(file.ast.FileStart, "%d lines, at most %d", lines, MaxFileLines))
	}
	for _, declaration := range file.ast.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if lines := file.line(function.End()) - file.line(function.Pos()) + 1; lines > MaxFunctionLines {
			findings = append(findings, file.finding(function.Pos(),
				"%s has %d lines, at most %d", function.Name.Name, lines, MaxFunctionLines))
		}
	}
	return findings
}

// CheckDocs returns a finding for each package without a package comment. The comment must be in a production file. A
// comment in a test file counts only in a folder without production files.
func CheckDocs(files []*File) []string {
	production, documented := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		production[file.Dir] = production[file.Dir] || !file.Test
	}
	for _, file := range files {
		counts := file.Test != production[file.Dir]
		documented[file.Dir] = documented[file.Dir] || counts && file.ast.Doc != nil
	}
	var findings []string
	for _, file := range files {
		if !documented[file.Dir] {
			findings = append(findings, file.finding(file.ast.Package, "package %s has no doc comment", file.Dir))
			documented[file.Dir] = true // one finding is enough
		}
	}
	return findings
}
