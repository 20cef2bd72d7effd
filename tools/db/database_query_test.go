package db_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/db"
)

// S0-121: rows and the number of changed rows.
func TestQueries(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		name := b.fresh(c, "id integer primary key, name varchar(100)")
		assert.Equal(t, int64(2), b.run(c, "INSERT INTO "+name+" VALUES (1, 'one'), (2, NULL)").RowsAffected)
		got := b.run(c, "SELECT id, name FROM "+name+" ORDER BY id")
		assert.Equal(t, []string{"id", "name"}, got.Columns)
		assert.Equal(t, [][]any{{json.Number("1"), "one"}, {json.Number("2"), nil}}, got.Rows)
		assert.Zero(t, got.RowsAffected)
		assert.False(t, got.Truncated)

		assert.Equal(t, int64(1), b.run(c, "UPDATE "+name+" SET name = 'two' WHERE id = 2").RowsAffected)
		assert.Equal(t, int64(2), b.run(c, "DELETE FROM "+name).RowsAffected)
		empty := b.run(c, "SELECT * FROM "+name)
		assert.Equal(t, []string{"id", "name"}, empty.Columns)
		assert.Empty(t, empty.Rows)
		assert.Contains(t, empty.text, `"rows":[]`)

		returned := b.run(c, "INSERT INTO "+name+" VALUES (3, 'three'), (4, 'four') RETURNING id, name")
		assert.Equal(t, [][]any{{json.Number("3"), "three"}, {json.Number("4"), "four"}}, returned.Rows)
		assert.Equal(t, int64(2), returned.RowsAffected)
		b.run(c, "DROP TABLE "+name)
		e := b.refuse(fault.DatabaseError, c, "SELECT * FROM "+name)
		assert.Equal(t, "QUERY_FAILED", e.Reason)
		assert.Equal(t, "query", e.Field)
	})
}

// S0-121: parameters are bound, whatever they contain.
func TestParametersAreBound(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		name := b.fresh(c, "id integer, name varchar(200), ok boolean, price numeric(30,10)")
		insert := fmt.Sprintf("INSERT INTO %s VALUES (%s, %s, %s, %s)", name, mark(c, 1), mark(c, 2), mark(c, 3), mark(c, 4))
		for i, evil := range []string{
			"'); DROP TABLE " + name + "; --", "' OR '1'='1", `\'; DELETE FROM ` + name + ` #`, "$1 ? :x", "/* */", "ünï 🦊 \n\t\\",
		} {
			b.run(c, insert, i, evil, true, 1.5)
			got := b.run(c, "SELECT name FROM "+name+" WHERE name = "+mark(c, 1), evil)
			assert.Equal(t, [][]any{{evil}}, got.Rows)
		}
		assert.Equal(t, "6", b.count(c, name))
		b.run(c, insert, nil, nil, nil, nil)
		got := b.run(c, "SELECT id, name, ok, price FROM "+name+" WHERE id IS NULL")
		assert.Equal(t, [][]any{{nil, nil, nil, nil}}, got.Rows)
		b.run(c, insert, 7, map[string]any{"a": []int{1, 2}}, false, json.Number("12345678901234567890.0123456789"))
		got = b.run(c, "SELECT name, price FROM "+name+" WHERE id = 7")
		assert.JSONEq(t, `{"a":[1,2]}`, fmt.Sprint(got.Rows[0][0]))
		if c != "sqlite" { // which has no decimal numbers
			assert.Equal(t, json.Number("12345678901234567890.0123456789"), got.Rows[0][1])
		}
		e := b.refuse(fault.ValidationError, c, "SELECT "+mark(c, 1), 1, 2)
		assert.Equal(t, "parameters", e.Field)
		e = b.refuse(fault.ValidationError, c, "SELECT "+mark(c, 1), "nul \x00 inside")
		assert.Equal(t, "parameters[0]", e.Field)
	})
}

// S0-123, A-37: the intent of a call.
func TestIntent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for query, want := range map[string]tools.Intent{
		"SELECT 1":               {Effect: tools.Read, Reason: "SELECT"},
		"INSERT INTO t SELECT 1": {Effect: tools.Write, Reason: "INSERT"},
		"DELETE FROM t":          {Effect: tools.Destructive, Reason: "DELETE"},
		"SELECT 1; DROP TABLE t": {Effect: tools.Destructive, Reason: "2 statements"},
	} {
		for _, c := range engines() {
			u := map[string]string{"postgres": os.Getenv("ORCH_TEST_POSTGRES"), "mariadb": os.Getenv("ORCH_TEST_MARIADB")}[c]
			name := "sqlite:" + b.file()
			if u != "" {
				_, after, _ := strings.Cut(u, "@")
				address, _, _ := strings.Cut(after, "?")
				name = map[string]string{"postgres": "postgres://", "mariadb": "mysql://"}[c] + address
			}
			intender, ok := b.tool.(tools.Intender)
			require.True(t, ok)
			got, err := intender.Intent(t.Context(), b.env, b.args("secret://"+c, query))
			require.NoError(t, err)
			want.Targets, want.Files = []tools.Target{{Kind: tools.Connection, Name: name}}, nil
			if u == "" {
				access := tools.WritePath
				if want.Effect == tools.Read {
					access = tools.ReadPath
				}
				want.Files = []tools.File{{Field: "connection_string", Path: b.file(), Access: access}}
			}
			assert.Equal(t, want, got)
		}
	}
}

// A call accepts one statement, and the engines agree.
func TestSeveralStatements(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		name := b.fresh(c, "a integer", "1")
		for _, query := range []string{"SELECT 1; DELETE FROM " + name, "DELETE FROM " + name + "; SELECT 1", "SELECT 1; SELECT 2"} {
			e := b.refuse(fault.ValidationError, c, query)
			assert.Equal(t, "query", e.Field)
		}
		b.run(c, "SELECT 1 ; -- the end")
		assert.Equal(t, "1", b.count(c, name))
	})
}

func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		b.fresh(c, "a integer")
		numbers := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, 'some text' AS a FROM n"
		cfg := b.cfg
		cfg.MaxRows = 10
		b.configure(cfg)
		few := b.run(c, numbers)
		assert.Len(t, few.Rows, 10)
		assert.True(t, few.Truncated)
		cfg.MaxRows, cfg.MaxBytes = 0, 100
		b.configure(cfg)
		short := b.run(c, numbers)
		assert.True(t, short.Truncated)
		assert.NotEmpty(t, short.Rows)
		assert.Less(t, len(short.text), 300)
		cfg.MaxBytes = 0
		b.configure(cfg)
		all := b.run(c, numbers)
		assert.Len(t, all.Rows, 900)
		assert.False(t, all.Truncated)
	})
}

// A write succeeds even if its rows exceed the limits.
func TestTruncatedReturning(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		name := b.fresh(c, "a integer")
		cfg := b.cfg
		cfg.MaxRows = 1
		b.configure(cfg)
		got := b.run(c, "INSERT INTO "+name+" VALUES (1), (2), (3) RETURNING a")
		assert.True(t, got.Truncated)
		assert.Len(t, got.Rows, 1)
		assert.Equal(t, "3", b.count(c, name))
	})
}

// When a call ends, its query ends too, also on the server.
func TestCancel(t *testing.T) {
	t.Parallel()
	endless := map[string]string{
		"postgres": "SELECT pg_sleep(600) /* %s */", "mariadb": "SELECT sleep(600) /* %s */",
		"sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n /* %s */",
	}
	running := map[string]string{
		"postgres": "SELECT count(*) FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()",
		"mariadb":  "SELECT count(*) FROM information_schema.processlist WHERE info LIKE ? AND id <> connection_id()",
	}
	eachEngine(t, func(t *testing.T, b *bench, c string) {
		t.Helper()
		b.fresh(c, "a integer")
		id := fmt.Sprintf("orch-%d", time.Now().UnixNano())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := b.tool.Call(ctx, b.env, b.args("secret://"+c, fmt.Sprintf(endless[c], id)))
			ended <- err
		}()
		seen := func() string {
			if running[c] == "" {
				return "1"
			}
			return fmt.Sprint(b.run(c, running[c], "%"+id+"%").Rows[0][0])
		}
		require.Eventually(t, func() bool { return seen() == "1" }, time.Minute, 20*time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		if running[c] != "" {
			assert.Eventually(t, func() bool { return seen() == "0" }, time.Minute, 20*time.Millisecond)
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for c, query := range map[string]string{
		"postgres": "SELECT pg_sleep(600)", "mariadb": "SELECT sleep(600)",
		"sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
	} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			needServer(t, c)
			b := newBench(t)
			b.fresh("sqlite", "a integer")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := b.tool.Call(ctx, b.env, b.args("secret://"+c, query))
			assert.Equal(t, fault.Timeout, fault.CodeOf(err), "%v", err)
		})
	}
}

func TestDescription(t *testing.T) {
	t.Parallel()
	tool := db.Tools(db.Config{})[0]
	d := tools.Describe(tool)
	assert.True(t, d.Annotations.DestructiveHint)
	assert.False(t, d.Annotations.ReadOnlyHint)
	assert.Equal(t, tools.Database, tool.Spec().RateClass())
}
