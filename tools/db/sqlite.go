package db

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/embed" // registers the SQLite library

	"github.com/orch-dev/orch/classify/sql"
	"github.com/orch-dev/orch/fault"
)

// The limits of SQLite, which runs inside of this process.
const (
	// sqliteValue is the largest value, sqliteHeap the maximum memory of a connection, in bytes.
	sqliteValue = 16 << 20
	sqliteHeap  = 128 << 20
	// sqliteBusy is how long a statement waits for the lock of another process.
	sqliteBusy = 10 * time.Second
)

// runSQLite runs a query on a file. An authorizer checks every table, function and action that the compiled statement
// uses, including those of views and triggers.
func runSQLite(ctx context.Context, c connection, q query, out *table) (int64, error) {
	conn, err := openSQLite(ctx, c, q)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	stmt, tail, err := conn.Prepare(q.text)
	if err != nil {
		return 0, sqliteError(q, err)
	}
	if stmt == nil {
		return 0, fault.New(fault.ValidationError, "there is no statement").WithField("query")
	}
	defer func() { _ = stmt.Close() }()
	if err := checkSingle(conn, tail); err != nil {
		return 0, err
	}
	if q.reads() && !stmt.ReadOnly() {
		return 0, readOnlyError(nil, "the statement would change the database")
	}
	if err := bindSQLite(stmt, q.params); err != nil {
		return 0, err
	}
	for i := range stmt.ColumnCount() {
		out.columns = append(out.columns, stmt.ColumnName(i))
	}
	for stmt.Step() {
		if !out.add(sqliteRow(stmt)) && q.reads() {
			return 0, nil
		}
	}
	if err := stmt.Err(); err != nil {
		return 0, sqliteError(q, err)
	}
	return conn.Changes(), nil
}

// openSQLite opens the file. Only a destructive statement, which a person approved, may create it.
func openSQLite(ctx context.Context, c connection, q query) (*sqlite3.Conn, error) {
	flags := sqlite3.OPEN_READWRITE
	switch q.class.Level {
	case sql.Read:
		flags = sqlite3.OPEN_READONLY
	case sql.Destructive:
		flags |= sqlite3.OPEN_CREATE
	case sql.Write:
	}
	if _, err := os.Lstat(c.file); errors.Is(err, fs.ErrNotExist) && flags&sqlite3.OPEN_CREATE == 0 {
		return nil, fault.New(fault.NotFound, "there is no file %s", c.file).WithField(connectionField)
	}
	conn, err := sqlite3.OpenFlags(c.file, flags|sqlite3.OPEN_NOFOLLOW)
	if err != nil {
		return nil, connectError(c, err, sqliteMessage(err))
	}
	conn.SetInterrupt(ctx)
	if err := guardSQLite(conn, q); err != nil {
		return nil, errors.Join(connectError(c, err, sqliteMessage(err)), conn.Close())
	}
	return conn, nil
}

// guardSQLite limits the resources of a connection and restricts it to the level of the query.
func guardSQLite(conn *sqlite3.Conn, q query) error {
	conn.Limit(sqlite3.LIMIT_LENGTH, sqliteValue)
	conn.HardHeapLimit(sqliteHeap)
	_, defensive := conn.Config(sqlite3.DBCONFIG_DEFENSIVE, true)
	_, untrusted := conn.Config(sqlite3.DBCONFIG_TRUSTED_SCHEMA, false)
	err := errors.Join(defensive, untrusted, conn.BusyTimeout(sqliteBusy))
	if q.reads() {
		err = errors.Join(err, conn.Exec("PRAGMA query_only = 1"))
	}
	return errors.Join(err, conn.SetAuthorizer(authorizer(q.class.Level)))
}

// authorizer returns a function that permits the actions of statements of the level. No level may open other files or
// change settings.
func authorizer(level sql.Level) func(sqlite3.AuthorizerActionCode, string, string, string, string) sqlite3.AuthorizerReturnCode {
	return func(action sqlite3.AuthorizerActionCode, first, second, _, inner string) sqlite3.AuthorizerReturnCode {
		if permits(level, action, first, second, inner != "") {
			return sqlite3.AUTH_OK
		}
		return sqlite3.AUTH_DENY
	}
}

// permits reports whether a statement of the level may perform an action. inside is true within a trigger or view.
func permits(level sql.Level, action sqlite3.AuthorizerActionCode, first, second string, inside bool) bool {
	switch action { //nolint:exhaustive // only destructive statements may perform other actions
	case sqlite3.AUTH_SELECT, sqlite3.AUTH_READ, sqlite3.AUTH_RECURSIVE:
		return true
	case sqlite3.AUTH_FUNCTION:
		return !strings.EqualFold(second, "load_extension")
	case sqlite3.AUTH_PRAGMA:
		return sql.ReadPragma(first)
	case sqlite3.AUTH_ATTACH: // VACUUM attaches a temporary file, which has no name
		return level == sql.Destructive && first == ""
	case sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE:
		return level >= sql.Write
	case sqlite3.AUTH_DELETE: // a write may delete through an existing trigger
		return level == sql.Destructive || level == sql.Write && inside
	}
	return level == sql.Destructive
}

// checkSingle returns VALIDATION_ERROR unless only comments and semicolons follow a statement.
func checkSingle(conn *sqlite3.Conn, tail string) error {
	for strings.TrimSpace(tail) != "" {
		next, rest, err := conn.Prepare(tail)
		if err != nil || next != nil {
			if next != nil {
				err = next.Close()
			}
			return fault.Wrap(fault.ValidationError, err, "something follows the statement").WithField("query")
		}
		if len(rest) >= len(tail) {
			return nil // a comment
		}
		tail = rest
	}
	return nil
}

func bindSQLite(stmt *sqlite3.Stmt, params []any) error {
	if stmt.BindCount() != len(params) {
		return wrongCount(stmt.BindCount(), len(params))
	}
	for i, p := range params {
		if err := bindParameter(stmt, i+1, p); err != nil {
			return fault.Wrap(fault.ValidationError, err, "cannot be bound: "+sqliteMessage(err)).WithField(parameterField(i))
		}
	}
	return nil
}

// bindParameter binds a parameter to the placeholder at an index, from 1.
func bindParameter(stmt *sqlite3.Stmt, index int, p any) error {
	switch p := p.(type) {
	case nil:
		return stmt.BindNull(index)
	case bool:
		return stmt.BindBool(index, p)
	case json.Number:
		if n, err := p.Int64(); err == nil {
			return stmt.BindInt64(index, n)
		}
		f, err := p.Float64()
		if err != nil {
			return err
		}
		return stmt.BindFloat(index, f)
	case string:
		return stmt.BindText(index, p)
	default:
		return errors.New("SQLite has no such type")
	}
}

func sqliteRow(stmt *sqlite3.Stmt) []json.RawMessage {
	row := make([]json.RawMessage, stmt.ColumnCount())
	for i := range row {
		switch stmt.ColumnType(i) {
		case sqlite3.INTEGER:
			row[i] = num(stmt.ColumnText(i))
		case sqlite3.FLOAT:
			row[i] = float(stmt.ColumnFloat(i), 64)
		case sqlite3.BLOB:
			row[i] = blob(stmt.ColumnRawBlob(i))
		case sqlite3.NULL:
			row[i] = null()
		default:
			row[i] = str(stmt.ColumnText(i))
		}
	}
	return row
}

// sqliteMessage returns the message of SQLite without its prefix.
func sqliteMessage(err error) string { return strings.TrimPrefix(err.Error(), "sqlite3: ") }

// sqliteError converts an error of SQLite to a coded error.
func sqliteError(q query, err error) *fault.Error {
	switch {
	case errors.Is(err, sqlite3.AUTH), errors.Is(err, sqlite3.READONLY):
		if q.reads() {
			return readOnlyError(err, sqliteMessage(err))
		}
		return fault.Wrap(fault.Forbidden, err, "other files and settings of SQLite are forbidden: "+sqliteMessage(err)).WithField("query")
	case errors.Is(err, sqlite3.BUSY):
		return fault.Wrap(fault.Conflict, err, "another process has locked the database").WithField(connectionField)
	case errors.Is(err, sqlite3.NOTADB):
		return fault.Wrap(fault.InvalidFormat, err, "the file is not an SQLite database").WithField(connectionField)
	}
	return queryError(err, sqliteMessage(err))
}
