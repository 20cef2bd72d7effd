package archtest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/archtest"
)

const mod = archtest.Module + "/"

func TestRowsNamePackagesThatExist(t *testing.T) {
	t.Parallel()
	table := archtest.Table{
		Layers: []archtest.Layer{{Name: "all", Rows: []archtest.Row{
			{Package: "a", Imports: []string{"b", "gone", archtest.Below}}, {Package: "b/*"}, {Package: "lost"},
		}}},
		Libraries: []archtest.Library{{Path: "example.org/x", Users: []string{"a", "nobody"}}},
	}
	files := load(t, map[string]string{"a/a.go": "package a", "b/c/c.go": "package c"})
	assert.Equal(t, []string{
		"test/archtest/table.go: a: no package is called b",
		"test/archtest/table.go: a: no package is called gone",
		"test/archtest/table.go: a row: no package is called lost",
		"test/archtest/table.go: example.org/x: no package is called nobody",
	}, archtest.CheckTable(files, table))
}

func TestRooms(t *testing.T) {
	t.Parallel()
	files := load(t, map[string]string{
		"cellar/a.go": importing(mod + "roof/x"), "roof/x/x.go": importing(mod + "cellar"), "shed/a.go": "package shed",
		"cellar/a_test.go": importing(mod + "roof/x"),
	})
	assert.ElementsMatch(t, []string{
		"cellar/a.go:5: cellar imports roof/x, which lies above it",
		"shed/a.go:1: shed lies in no room: give it a place in test/archtest/table.go",
	}, archtest.CheckRooms(files, archtest.Table{Rooms: []string{"cellar", "roof"}}))
}

func TestTypes(t *testing.T) {
	t.Parallel()
	methods := func(on string, n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "func (%s) m%d() {}\n", on, i)
		}
		return text.String()
	}
	files := load(t, map[string]string{
		"a/type.go": "package a\n\ntype bag[T any] struct{}\n\ntype neat struct{ bag[int] }\n" + methods("*bag[T]", 60), "a/more.go": "package a\n\n" + methods("b bag[T]", 1),
		"a/neat.go": "package a\n\n" + methods("neat", 60), "a/a_test.go": "package a\n\n" + methods("neat", 1),
		"b/bag.go": "package b\n\ntype bag struct{}\n" + methods("bag", 1),
	})
	assert.Equal(t, []string{"a/type.go:3: bag has 61 methods, at most 60: which two jobs does it have?"}, archtest.CheckTypes(files))
}

// The ids of this test are written with a ~, for the check reads this file too.
func TestUndefinedRequirements(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{}
	for name, text := range map[string]string{
		"docs/requirements.yaml": "groups:\n- title: All\n  rules:\n    X~01: One.\n    X~03: Three.\n    X~02: Two.\n" +
			"- title: More\n  rules:\n    X~01: One.\n    S9~001: No kind.\n    T~1: No sentence\n",
		"a/a.go":             "package a\n\n// A is one (X~01 to X~03, X~04).\nconst A = \"S0~001 [A~Z0~9] UTF~8\" // W~03, A~F05\n",
		"docs/a.md":          "X~01, X~05\n",
		"scripts/run":        "# AC~01\n",
		"a/testdata/b.txtar": "# N~4\n",
		"a/testdata/c.json":  "Q~77",
		"bin/orch":           "Q~77",
		".git/config.txt":    "Q~77",
	} {
		tree[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "~", "-"))}
	}
	findings, err := archtest.CheckRequirements(tree)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"docs/requirements.yaml: X~02 stands behind X~03",
		"docs/requirements.yaml: X~01 is there twice",
		"docs/requirements.yaml: S9~001 is no id of a known kind",
		"docs/requirements.yaml: T~1 has no sentence",
		"a/a.go:3: X~04 is in no rule of docs/requirements.yaml",
		"a/a.go:4: S0~001 is in no rule of docs/requirements.yaml",
		"a/a.go:4: W~03 is in no rule of docs/requirements.yaml",
		"a/a.go:4: A~F05 is in no rule of docs/requirements.yaml",
		"a/testdata/b.txtar:1: N~4 is in no rule of docs/requirements.yaml",
		"docs/a.md:1: X~05 is in no rule of docs/requirements.yaml",
		"scripts/run:1: AC~01 is in no rule of docs/requirements.yaml",
	}, strings.Split(strings.ReplaceAll(strings.Join(findings, "\n"), "-", "~"), "\n"))

	_, err = archtest.CheckRequirements(fstest.MapFS{})
	require.Error(t, err)
}

// load parses sources, path → text.
func load(t *testing.T, sources map[string]string) []*archtest.File {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range sources {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	files, err := archtest.Load(tree)
	require.NoError(t, err)
	return files
}

func importing(paths ...string) string {
	return "// Package p.\npackage p\n\nimport (\n\t_ \"" + strings.Join(paths, "\"\n\t_ \"") + "\"\n)\n"
}

func TestImportTable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, imports string
		want          string // "" when the import is fine
	}{
		"leaf upwards":               {"fault/a.go", mod + "events", "fault may not import events"},
		"down one layer":             {"events/a.go", mod + "fault", ""},
		"plan knows fault alone":     {"plan/a.go", mod + "events", "plan may not import events"},
		"state machine upwards":      {"statemachine/a.go", mod + "orchestrator", "statemachine may not import orchestrator"},
		"orchestrator to worker":     {"orchestrator/a.go", mod + "worker", "orchestrator may not import worker"},
		"worker to orchestrator":     {"worker/a.go", mod + "orchestrator", "worker may not import orchestrator"},
		"both to work":               {"worker/a.go", mod + "work", ""},
		"owner to work":              {"orchestrator/a.go", mod + "work", ""},
		"face to bus":                {"httpapi/a.go", mod + "bus", "httpapi may not import bus"},
		"face to worker":             {"mcp/server/a.go", mod + "worker", "mcp/* may not import worker"},
		"tool to mcp":                {"tools/task/a.go", mod + "mcp/gateway", "tools/* may not import mcp/gateway"},
		"catalogue to mcp":           {"tools/a.go", mod + "mcp/gateway", "tools may not import mcp/gateway"},
		"tool to another family":     {"tools/task/a.go", mod + "tools/git", "tools/* may not import tools/git"},
		"tool to policy":             {"tools/task/a.go", mod + "policy", "tools/* may not import policy"},
		"shell to its classifier":    {"tools/shell/a.go", mod + "classify/shell", ""},
		"port to its semantics":      {"tools/firebase/a.go", mod + "tools/firebase/tree", ""},
		"semantics to the port":      {"tools/firebase/tree/a.go", mod + "tools/firebase", "tools/firebase/tree may not import tools/firebase"},
		"semantics and context":      {"tools/firebase/document/a.go", "context", "tools/firebase/document is pure: it may not import context"},
		"builtin to families":        {"tools/builtin/a.go", mod + "tools/fs", ""},
		"node to all below":          {"node/a.go", mod + "bus", ""},
		"root to node":               {"orch.go", mod + "node", ""},
		"root to bus":                {"orch.go", mod + "bus", ". may not import bus"},
		"root from below":            {"node/a.go", archtest.Module, "node may not import ."},
		"node to cmd":                {"node/a.go", mod + "cmd/orch", "node may not import cmd/orch"},
		"cmd to all below":           {"cmd/orch/a.go", mod + "node", ""},
		"cmd to a kit":               {"cmd/orch/a.go", mod + "internal/goroutines", "cmd/orch may not import internal/goroutines"},
		"test to a kit":              {"worker/a_test.go", mod + "internal/goroutines", ""},
		"test to its own package":    {"worker/a_test.go", mod + "worker", ""},
		"test sideways":              {"orchestrator/a_test.go", mod + "worker", ""},
		"test upwards":               {"orchestrator/a_test.go", mod + "bus", "orchestrator may not import bus"},
		"package without a row":      {"misc/a.go", "fmt", "package misc has no row"},
		"target without a row":       {"cmd/orch/a.go", mod + "misc", "package misc has no row"},
		"nats in bus":                {"bus/a.go", "github.com/nats-io/nats.go/jetstream", ""},
		"nats elsewhere":             {"worker/a.go", "github.com/nats-io/nats.go", "github.com/nats-io is for bus"},
		"nats server in a test":      {"worker/a_test.go", "github.com/nats-io/nats-server/v2/server", "github.com/nats-io is for bus"},
		"sdk in a face":              {"mcp/server/a.go", "github.com/modelcontextprotocol/go-sdk/mcp", ""},
		"sdk in httpapi":             {"httpapi/a.go", "github.com/modelcontextprotocol/go-sdk/mcp", "go-sdk is for mcp/*, bench only"},
		"expr in plan":               {"plan/a.go", "github.com/expr-lang/expr/vm", ""},
		"expr elsewhere":             {"orchestrator/a.go", "github.com/expr-lang/expr", "expr is for plan only"},
		"fsm elsewhere":              {"orchestrator/a.go", "github.com/looplab/fsm", "fsm is for statemachine only"},
		"testify in production":      {"worker/a.go", "github.com/stretchr/testify/require", "testify is for tests only"},
		"testify in a test":          {"worker/a_test.go", "github.com/stretchr/testify/require", ""},
		"testify in a kit":           {"events/eventstest/a.go", "github.com/stretchr/testify/require", ""},
		"testing in production":      {"worker/a.go", "testing", "testing is for tests only"},
		"library without a line":     {"worker/a.go", "github.com/nats-io-fork/x", "is no library of this module"},
		"state machine and os":       {"statemachine/a.go", "os/exec", "statemachine is pure: it may not import os/exec"},
		"state machine and net":      {"statemachine/a.go", "net", "statemachine is pure: it may not import net"},
		"state machine and context":  {"statemachine/a.go", "context", "statemachine is pure: it may not import context"},
		"state machine and time":     {"statemachine/a.go", "time", ""},
		"state machine test and os":  {"statemachine/a_test.go", "os", ""},
		"context in the other parts": {"worker/a.go", "context", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := load(t, map[string]string{test.path: importing(test.imports)})
			findings := archtest.CheckImports(files, archtest.Orch())
			if test.want == "" {
				assert.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			assert.Contains(t, findings[0], test.path+":")
			assert.Contains(t, findings[0], test.want)
		})
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	imports := func(files []*archtest.File) []string { return archtest.CheckImports(files, archtest.Orch()) }
	long := strings.Repeat("\t_ = 1\n", archtest.MaxFunctionLines-2)
	for name, test := range map[string]struct {
		check        func([]*archtest.File) []string
		path, source string
		want         string // "" when the source is fine
	}{
		"clock in the pure part": {
			imports, "statemachine/a.go", "package p\nimport clock \"time\"\nvar now = clock.Now", "a.go:3: time.Now in a pure package",
		},
		"duration in the pure part": {imports, "statemachine/a.go", "package p\nimport \"time\"\nconst d = time.Second", ""},
		"clock elsewhere":           {imports, "worker/a.go", "package p\nimport \"time\"\nvar now = time.Now", ""},

		"empty name":            {archtest.CheckNames, "x/a.go", "package util", "package util: name what"},
		"empty name of a test":  {archtest.CheckNames, "x/a_test.go", "package helpers_test", "package helpers: name what"},
		"name of the library":   {archtest.CheckNames, "fsm/a.go", "package fsm\nimport _ \"github.com/looplab/fsm\"", "name of a library"},
		"… with major version":  {archtest.CheckNames, "a.go", "package ulid\nimport _ \"github.com/oklog/ulid/v2\"", "name of a library"},
		"… with suffix":         {archtest.CheckNames, "a.go", "package nats\nimport _ \"github.com/nats-io/nats.go\"", "name of a library"},
		"name of its own":       {archtest.CheckNames, "a.go", "package bus\nimport _ \"github.com/nats-io/nats.go\"", ""},
		"same noun, own module": {archtest.CheckNames, "a.go", "package plan\nimport _ \"" + mod + "plan\"", ""},

		"init":           {archtest.CheckStyle, "a.go", "package p\nfunc init() {}", "a.go:2: init runs unseen"},
		"method init":    {archtest.CheckStyle, "a.go", "package p\ntype t int\nfunc (t) init() {}", ""},
		"sleep":          {archtest.CheckStyle, "a.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", "a.go:3: time.Sleep"},
		"sleep in test":  {archtest.CheckStyle, "a_test.go", "package p\nimport c \"time\"\nvar f = c.Sleep", "time.Sleep"},
		"sleep of mine":  {archtest.CheckStyle, "a.go", "package p\nimport \"example/time\"\nvar f = time.Sleep", ""},
		"dot import":     {archtest.CheckStyle, "a.go", "package p\nimport . \"time\"", "dot imports"},
		"long function":  {archtest.CheckStyle, "a.go", "package p\nfunc f() {\n" + long + "\n}", "f has 81 lines"},
		"longest":        {archtest.CheckStyle, "a.go", "package p\nfunc f() {\n" + long + "}", ""},
		"… in a test":    {archtest.CheckStyle, "a_test.go", "package p\nfunc f() {\n" + long + "\n}", ""},
		"long file":      {archtest.CheckStyle, "a.go", "package p\n" + strings.Repeat("\n", 500), "501 lines"},
		"generated file": {archtest.CheckStyle, "a.go", "// Code generated by x. DO NOT EDIT.\npackage p\n" + strings.Repeat("\n", 500), ""},

		"no doc comment":     {archtest.CheckDocs, "x/a.go", "package p", "package x has no doc comment"},
		"detached comment":   {archtest.CheckDocs, "x/a.go", "// Package p is.\n\npackage p", "no doc comment"},
		"doc comment":        {archtest.CheckDocs, "x/a.go", "// Package p is.\npackage p", ""},
		"nothing but a test": {archtest.CheckDocs, "x/a_test.go", "// Package p is.\npackage p", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings := test.check(load(t, map[string]string{test.path: test.source}))
			if test.want == "" {
				assert.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			assert.Contains(t, findings[0], test.want)
		})
	}
}

func TestDocCommentOfATestDoesNotCount(t *testing.T) {
	t.Parallel()
	files := load(t, map[string]string{"x/a.go": "package p", "x/a_test.go": "// Package p is.\npackage p"})
	require.Len(t, archtest.CheckDocs(files), 1)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	files := load(t, map[string]string{
		"a.go":                  "package p",
		"b_test.go":             "package p",
		"c.txt":                 "no Go",
		"x/testdata/a.go":       "package p",
		"vendor/a.go":           "package p",
		".hidden/a.go":          "package p",
		"_old/a.go":             "package p",
		"Working/TASK_1/a.go":   "package p",
		"x/y/a.go":              "package p",
		"web/node_modules/b.go": "package p",
	})
	var paths []string
	for _, file := range files {
		paths = append(paths, file.Path)
	}
	assert.Equal(t, []string{"a.go", "b_test.go", "x/y/a.go"}, paths)

	_, err := archtest.Load(fstest.MapFS{"a.go": {Data: []byte("package")}})
	require.Error(t, err)
}

func TestLoadPassesOverOtherModules(t *testing.T) {
	t.Parallel()
	files, err := archtest.Load(fstest.MapFS{
		"go.mod":             {Data: []byte("module m")},
		"a/a.go":             {Data: []byte("package a")},
		"bench/peers/go.mod": {Data: []byte("module peers")},
		"bench/peers/b.go":   {Data: []byte("package main")},
	})
	require.NoError(t, err)
	require.Len(t, files, 1)
	assert.Equal(t, "a/a.go", files[0].Path)
}
