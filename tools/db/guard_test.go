package db_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
)

// A statement that is classified as a read cannot write, whatever a function does.
func TestReadsCannotWrite(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		name := b.fresh("postgres", "a integer", "1")
		b.run("postgres", "CREATE FUNCTION "+name+"_wipe() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN DELETE FROM "+name+"; RETURN 1; END $$")
		b.run("postgres", "CREATE FUNCTION "+name+"_free() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM "+name+"; RETURN 1; END $$")
		e := b.refuse(fault.DatabaseError, "postgres", "SELECT "+name+"_wipe()")
		assert.Equal(t, "READ_ONLY", e.Reason)
		_ = b.refuse(fault.DatabaseError, "postgres", "SELECT "+name+"_free()")
		assert.Equal(t, "1", b.count("postgres", name))
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		name := b.fresh("mariadb", "a integer", "1")
		b.run("mariadb", "CREATE FUNCTION "+name+"_wipe() RETURNS integer MODIFIES SQL DATA BEGIN DELETE FROM "+name+"; RETURN 1; END")
		e := b.refuse(fault.DatabaseError, "mariadb", "SELECT "+name+"_wipe()")
		assert.Equal(t, "READ_ONLY", e.Reason)
		assert.Equal(t, "1", b.count("mariadb", name))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		name := b.fresh("sqlite", "a integer", "1")
		for _, pragma := range []string{"table_info", "index_list"} {
			b.run("sqlite", "PRAGMA "+pragma+"("+name+")")
			b.run("sqlite", "SELECT * FROM pragma_"+pragma+"('"+name+"')")
		}
		assert.Equal(t, "1", b.count("sqlite", name))
	})
}

// Even an approved SQLite statement opens no other file and changes no setting.
func TestSQLiteStaysInItsFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := b.fresh("sqlite", "a integer", "1")
	other := filepath.Join(t.TempDir(), "other.db")
	for _, query := range []string{
		"ATTACH '" + other + "' AS o", "VACUUM INTO '" + other + "'", "PRAGMA journal_mode = WAL", "PRAGMA writable_schema = 1",
		"ATTACH DATABASE ':memory:' AS o", "ATTACH 'file:" + other + "?mode=rwc' AS o", "VACUUM main INTO '" + other + "'",
		"PRAGMA query_only = 0", "PRAGMA temp_store_directory = '/tmp'", "ATTACH 'vacuum_x' AS o",
	} {
		e := b.refuse(fault.Forbidden, "sqlite", query)
		assert.Equal(t, "query", e.Field)
	}
	_ = b.refuse(fault.DatabaseError, "sqlite", "SELECT load_extension('x')") // the function does not exist
	assert.NoFileExists(t, other)
	b.run("sqlite", "VACUUM")
	b.run("sqlite", "CREATE TABLE log (a integer)")
	b.run("sqlite", "CREATE TRIGGER tr AFTER INSERT ON "+name+" BEGIN DELETE FROM log; END")
	b.run("sqlite", "INSERT INTO log VALUES (1)")
	b.run("sqlite", "INSERT INTO "+name+" VALUES (2)")
	assert.Equal(t, "2", b.count("sqlite", name))
	assert.Equal(t, "0", b.count("sqlite", "log"), "a trigger may delete")
}

// A read cannot access files of the server, and COPY does not hang.
func TestFilesOfTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_ = b.refuse(fault.ValidationError, "postgres", "COPY pg_class TO STDOUT")
	_ = b.refuse(fault.ValidationError, "postgres", "COPY x FROM STDIN")
	_ = b.refuse(fault.ValidationError, "mariadb", "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t")
}

// A violated deferred constraint fails the call.
func TestDeferredConstraint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := b.fresh("postgres", "a integer unique deferrable initially deferred", "1")
	_ = b.refuse(fault.DatabaseError, "postgres", "INSERT INTO "+name+" VALUES (1)")
	assert.Equal(t, "1", b.count("postgres", name))
	b.run("postgres", "WITH x AS (INSERT INTO "+name+" VALUES (2) RETURNING a) SELECT a FROM x")
	assert.Equal(t, "2", b.count("postgres", name))
}

func TestTypesOfPostgres(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for expression, want := range map[string]any{
		"9223372036854775807::bigint":                   json.Number("9223372036854775807"),
		"123456789012345678901234567890.12345::numeric": json.Number("123456789012345678901234567890.12345"),
		"0.1::float8":                  json.Number("0.1"),
		"'NaN'::float8":                "NaN",
		"'-Infinity'::numeric":         "-Infinity",
		"true":                         true,
		"1 = 2":                        false,
		"NULL::int":                    nil,
		"'<a> & b'::text":              "<a> & b",
		"'\\x00ff'::bytea":             "AP8=",
		"'{\"a\": 1e400}'::jsonb->'b'": nil,
		"'[1, \"x\"]'::jsonb":          []any{json.Number("1"), "x"},
		"'2026-01-02 03:04:05.6+02'::timestamptz":      "2026-01-02T01:04:05.6Z",
		"'2026-01-02 03:04:05'::timestamp":             "2026-01-02T03:04:05",
		"'infinity'::timestamptz":                      "infinity",
		"'2026-01-02'::date":                           "2026-01-02",
		"'03:04:05'::time":                             "03:04:05",
		"'1 day 2 hours'::interval":                    "P1DT2H",
		"'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"ARRAY[1,2]":                                   "{1,2}",
		"'10.0.0.1'::inet":                             "10.0.0.1",
		"'\\'":                                         "\\",
	} {
		assert.Equal(t, [][]any{{want}}, b.run("postgres", "SELECT "+expression).Rows, expression)
	}
}

func TestTypesOfMariaDB(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := b.fresh("mariadb", `a bigint unsigned, b decimal(40,5), c double, d float, e bit(10), f varbinary(10), g longblob,
		h datetime(3), i timestamp, j date, k time, l json, m year, n text, o boolean, p enum('x', 'y')`,
		`18446744073709551615, 12345678901234567890123456789012345.67890, 0.1, 0.5, b'1000000001', x'00ff', x'41',
		'2026-01-02 03:04:05.678', '2026-01-02 03:04:05', '2026-01-02', '03:04:05', '{"a": 1}', 2026, '<ü>', true, 'y'`)
	want := []any{
		json.Number("18446744073709551615"), json.Number("12345678901234567890123456789012345.67890"), json.Number("0.1"),
		json.Number("0.5"), json.Number("513"), "AP8=", "QQ==", "2026-01-02T03:04:05.678", "2026-01-02T03:04:05Z", "2026-01-02",
		"03:04:05", `{"a": 1}`, json.Number("2026"), "<ü>", json.Number("1"), "y",
	}
	assert.Equal(t, [][]any{want}, b.run("mariadb", "SELECT * FROM "+name).Rows, "by the text protocol")
	assert.Equal(t, [][]any{want}, b.run("mariadb", "SELECT * FROM "+name+" WHERE m = ?", 2026).Rows, "by the binary protocol")
}

func TestTypesOfSQLite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fresh("sqlite", "a")
	for expression, want := range map[string]any{
		"9223372036854775807": json.Number("9223372036854775807"), "0.1": json.Number("0.1"), "1e999": "Infinity", "-1e999": "-Infinity",
		"x'00ff'": "AP8=", "NULL": nil, "'<ü>'": "<ü>", "1e300 * 1": json.Number("1e+300"),
	} {
		assert.Equal(t, [][]any{{want}}, b.run("sqlite", "SELECT "+expression).Rows, expression)
	}
	got := b.run("sqlite", "SELECT ?, ?, ?, ?, ?", 1, 1.5, true, nil, "x")
	assert.Equal(t, [][]any{{json.Number("1"), json.Number("1.5"), json.Number("1"), nil, "x"}}, got.Rows)
}
