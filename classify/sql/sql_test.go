package sql_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/sql"
)

const (
	pg   = sql.Postgres
	my   = sql.MySQL
	lite = sql.SQLite

	read        = sql.Read
	write       = sql.Write
	destructive = sql.Destructive
)

// all are the dialects.
func all() []sql.Dialect { return []sql.Dialect{pg, my, lite} }

// statement is a text with the level that it must have in each of the dialects.
type statement struct {
	dialects []sql.Dialect
	level    sql.Level
	query    string
}

// statements reads testdata/statements.txt.
func statements(tb testing.TB) []statement {
	tb.Helper()
	data, err := os.ReadFile("testdata/statements.txt")
	require.NoError(tb, err)
	var list []statement
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		require.Len(tb, fields, 3, line)
		s := statement{dialects: []sql.Dialect{sql.Dialect(fields[0])}}
		if fields[0] == "any" {
			s.dialects = all()
		}
		level, ok := map[string]sql.Level{"read": read, "write": write, "destructive": destructive}[fields[1]]
		require.True(tb, ok, line)
		s.level = level
		s.query, err = strconv.Unquote(fields[2])
		require.NoError(tb, err, line)
		list = append(list, s)
	}
	return list
}

// S0-123: no statement counts as less than it is, and at most one in a hundred reads as more.
func TestTable(t *testing.T) {
	t.Parallel()
	cases, allowed, refused := 0, 0, 0
	for _, s := range statements(t) {
		for _, d := range s.dialects {
			got := sql.Classify(d, s.query)
			assert.Equal(t, s.level, got.Level, "%s %q: %+v", d, s.query, got)
			assert.NotEmpty(t, got.Reason, "%s %q", d, s.query)
			cases++
			if got.Level < s.level {
				allowed++
			}
			if got.Level > s.level {
				refused++
			}
		}
	}
	t.Logf("%d cases, %d wrongly allowed, %d wrongly refused", cases, allowed, refused)
	require.GreaterOrEqual(t, cases, 150)
	assert.Zero(t, allowed)
	assert.LessOrEqual(t, refused*100, cases)
}

func TestReasons(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]sql.Class{
		"select 1":                        {Level: read, Reason: "SELECT", Verb: "SELECT", Statements: 1},
		"insert into t values (1)":        {Level: write, Reason: "INSERT", Verb: "INSERT", Statements: 1},
		"delete from t returning a":       {Level: destructive, Reason: "DELETE", Verb: "DELETE", Statements: 1, Returning: true},
		"select 1; select 2":              {Level: destructive, Reason: "2 statements", Statements: 2},
		"select pg_read_file('x')":        {Level: destructive, Reason: "calls pg_read_file", Verb: "SELECT", Statements: 1},
		"select 1 into x":                 {Level: destructive, Reason: "SELECT INTO", Verb: "SELECT", Statements: 1},
		"select 1 for update":             {Level: write, Reason: "FOR UPDATE", Verb: "SELECT", Statements: 1},
		"select '":                        {Level: destructive, Reason: "an unterminated string or name"},
		"create trigger t begin a; end":   {Level: destructive, Reason: "CREATE", Verb: "CREATE", Statements: 1},
		"vacuum":                          {Level: destructive, Reason: "VACUUM", Verb: "VACUUM", Statements: 1},
		"":                                {Level: destructive, Reason: "no statement"},
		"with a as (delete from t) table": {Level: destructive, Reason: "DELETE", Verb: "WITH", Statements: 1},
	} {
		assert.Equal(t, want, sql.Classify(pg, query), query)
	}
	assert.Equal(t, "read write destructive", strings.Join([]string{read.String(), write.String(), destructive.String()}, " "))
}

// Text around a statement does not make it harmless.
func TestDisguises(t *testing.T) {
	t.Parallel()
	for _, bad := range statements(t) {
		if bad.level != destructive || strings.Trim(bad.query, "; ") == "" || strings.HasPrefix(bad.query, "--") {
			continue // with nothing in it, what is added is all there is
		}
		for _, d := range bad.dialects {
			for _, disguise := range []func(string) string{
				func(q string) string { return "SELECT 1; " + q + " " },
				func(q string) string { return "/* SELECT */ " + q },
				func(q string) string { return "-- SELECT 1\n" + q },
				func(q string) string { return "\t\n " + q },
			} {
				query := disguise(bad.query)
				assert.Equal(t, destructive, sql.Classify(d, query).Level, "%s %q", d, query)
			}
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range statements(f) {
		f.Add(s.query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, d := range all() {
			got := sql.Classify(d, query)
			if got.Reason == "" {
				t.Fatalf("%s %q has no reason", d, query)
			}
			if got != sql.Classify(d, query) {
				t.Fatalf("%s %q has two classes", d, query)
			}
			// With a second statement it is never harmless, unless the first swallows it as a comment.
			more := sql.Classify(d, query+"\n;\nDELETE FROM t")
			if more.Level != sql.Destructive {
				t.Fatalf("%s %q hides a DELETE: %+v", d, query, more)
			}
			if got.Level < sql.Destructive && sql.Classify(d, query+" ").Level != got.Level {
				t.Fatalf("%s %q depends on a space", d, query)
			}
		}
	})
}
