package oracle_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // values of literals
	"github.com/stretchr/testify/require"
	pgquery "github.com/wasilibs/go-pgquery"

	"github.com/orch-dev/orch/classify/sql"
)

// judge returns the level of a text according to a parser; false for invalid SQL.
type judge func(query string) (sql.Level, bool)

func judges() map[sql.Dialect]judge {
	return map[sql.Dialect]judge{sql.Postgres: postgres, sql.MySQL: mysql}
}

// postgres searches for statements in the syntax tree of the PostgreSQL parser.
func postgres(query string) (sql.Level, bool) {
	text, err := pgquery.ParseToJSON(query)
	if err != nil {
		return 0, false
	}
	var tree struct {
		Stmts []any `json:"stmts"`
	}
	if json.Unmarshal([]byte(text), &tree) != nil || len(tree.Stmts) == 0 {
		return 0, false
	}
	if len(tree.Stmts) > 1 {
		return sql.Destructive, true
	}
	return walk(tree.Stmts), true
}

func walk(v any) sql.Level {
	level := sql.Read
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			level = max(level, walk(e))
		}
	case map[string]any:
		for key, e := range v {
			level = max(level, node(key, e), walk(e))
		}
	}
	return level
}

// node returns the level of one node of the tree.
func node(key string, v any) sql.Level {
	switch key {
	case "SelectStmt", "ExplainStmt", "VariableShowStmt":
		return sql.Read
	case "InsertStmt", "UpdateStmt", "lockingClause":
		return sql.Write
	case "intoClause":
		return sql.Destructive
	case "FuncCall":
		return function(v)
	}
	if strings.HasSuffix(key, "Stmt") && key[0] < 'a' { // names of nodes are capitalized, names of fields are not
		return sql.Destructive
	}
	return sql.Read
}

// function returns the level of functions that a read must not call.
func function(v any) sql.Level {
	call, _ := v.(map[string]any)
	names, _ := json.Marshal(call["funcname"])
	for name, level := range map[string]sql.Level{
		"pg_read_file": sql.Destructive, "lo_import": sql.Destructive, "dblink": sql.Destructive,
		"set_config": sql.Destructive, "pg_notify": sql.Destructive, "nextval": sql.Write,
	} {
		if strings.Contains(string(names), `"`+name+`"`) {
			return level
		}
	}
	return sql.Read
}

// mysql uses the parser of TiDB.
func mysql(query string) (sql.Level, bool) {
	if strings.Contains(query, "/*T!") || strings.Contains(query, "/*t!") {
		return 0, false // code only for TiDB
	}
	statements, _, err := parser.New().ParseSQL(query)
	if err != nil || len(statements) == 0 {
		return 0, false
	}
	if len(statements) > 1 {
		return sql.Destructive, true
	}
	return statement(statements[0]), true
}

func statement(s ast.StmtNode) sql.Level {
	switch s := s.(type) {
	case *ast.SelectStmt:
		switch {
		case s.SelectIntoOpt != nil:
			return sql.Destructive
		case s.LockInfo != nil && s.LockInfo.LockType != ast.SelectLockNone:
			return sql.Write
		}
		return sql.Read
	case *ast.SetOprStmt, *ast.ShowStmt:
		return sql.Read
	case *ast.InsertStmt:
		if s.IsReplace {
			return sql.Destructive
		}
		return sql.Write
	case *ast.UpdateStmt:
		return sql.Write
	case *ast.ExplainStmt:
		return statement(s.Stmt)
	default:
		return sql.Destructive
	}
}

// corpus reads the statements of the tests of package sql.
func corpus(tb testing.TB) []string {
	tb.Helper()
	data, err := os.ReadFile("../../../classify/sql/testdata/statements.txt")
	require.NoError(tb, err)
	var list []string
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) == 3 && fields[0] != "#" {
			text, err := strconv.Unquote(fields[2])
			require.NoError(tb, err, line)
			list = append(list, text)
		}
	}
	return list
}

// mutants returns n texts made of pieces of the corpus and of characters that split texts in odd places.
func mutants(list []string, n int) []string {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	glue := []string{
		"'", `"`, "`", "\\", "\\'", "''", "$$", "$a$", "--", "-- ", "#", "/*", "*/", "/*!", "/*!50000", "\n", "\r", ";", "(", ")", "[", "]",
		" E'", " U&'", " N'", "@", ":", "?", ".", "1", "1e", "0x", " DELETE FROM t", "; DELETE FROM t", " INTO x ", " AS ", " UPDATE ",
		" WITH a AS (SELECT 1) ", " INSERT INTO t ", " FOR UPDATE", "\u00a0", "\ufeff", "\x00", "\v", "\f", " UNION SELECT ", " EXPLAIN ANALYZE ",
	}
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			s := list[r.IntN(len(list))]
			from, to := 0, len(s)
			if len(s) > 0 && r.IntN(2) == 0 {
				from = r.IntN(len(s))
				to = from + r.IntN(len(s)-from) + 1
			}
			b.WriteString(s[from:to])
			b.WriteString(glue[r.IntN(len(glue))])
			if r.IntN(2) == 0 {
				b.WriteString(glue[r.IntN(len(glue))])
			}
		}
		out[i] = b.String()
	}
	return out
}

// check fails when the class is below the level of the parser, and reports whether the text is valid.
func check(tb testing.TB, d sql.Dialect, ask judge, query string) (valid, stricter bool) {
	tb.Helper()
	want, ok := ask(query)
	if !ok {
		return false, false
	}
	got := sql.Classify(d, query)
	if got.Level < want {
		tb.Errorf("%s %q counts as %s (%s), but the parser says %s", d, query, got.Level, got.Reason, want)
	}
	return true, got.Level > want
}

func TestClassesAreNoLaxerThanParsers(t *testing.T) {
	t.Parallel()
	list := corpus(t)
	for d, ask := range judges() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			valid, stricter := 0, 0
			for _, query := range append(mutants(list, 3_000), list...) {
				ok, more := check(t, d, ask, query)
				if ok {
					valid++
				}
				if more {
					stricter++
				}
			}
			t.Logf("%d texts that the parser takes, %d of them are classed stricter", valid, stricter)
			require.Greater(t, valid, 200)
		})
	}
}

// FuzzAgainstParsers searches for texts whose class is below the level of a parser.
func FuzzAgainstParsers(f *testing.F) {
	for _, query := range corpus(f) {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for d, ask := range judges() {
			check(t, d, ask, query)
		}
	})
}
