package db

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/orch-dev/orch/fault"
)

// runMySQL runs a query on MariaDB or MySQL. A read runs in a read-only session: a read-only transaction would not
// suffice, because DROP TABLE commits it. The driver accepts one statement, and prepares it when there are parameters.
func runMySQL(ctx context.Context, c connection, q query, out *table) (int64, error) {
	if q.class.Verb == "LOAD" {
		return 0, fault.New(fault.ValidationError, "LOAD has nowhere to read").WithField("query").WithHint("use INSERT")
	}
	pool, err := mysqlPool(c)
	if err != nil {
		return 0, connectError(c, err, "")
	}
	defer func() { _ = pool.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return 0, connectError(c, err, mysqlMessage(err))
	}
	defer func() { _ = conn.Close() }()
	id, err := prepareMySQL(ctx, conn, q)
	if err != nil {
		return 0, mysqlError(q, err)
	}
	killed := make(chan struct{})
	stopKill := context.AfterFunc(ctx, func() {
		defer close(killed)
		killMySQL(ctx, pool, id)
	})
	affected, err := queryMySQL(ctx, cancel, conn, q, out)
	if !stopKill() {
		<-killed
	}
	if err != nil && (!out.truncated || !q.reads()) {
		return 0, mysqlError(q, err)
	}
	return affected, nil
}

// mysqlPool returns a connection pool for c.
func mysqlPool(c connection) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User, cfg.Passwd = "tcp", c.address(), c.database, c.user, c.password
	cfg.Timeout = connectTime
	cfg.Logger = &mysql.NopLogger{}
	cfg.TLSConfig = map[string]string{"disable": "false", "prefer": "preferred", "require": "skip-verify", "verify-full": "true"}[c.tls]
	cfg.Params = map[string]string{
		"time_zone": "'+00:00'",
		// The server tokenizes strings as package classify/sql does: no ANSI_QUOTES, no NO_BACKSLASH_ESCAPES.
		"sql_mode": "'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(2) // one for the query, one to kill it
	return pool, nil
}

// prepareMySQL configures the session and returns its id.
func prepareMySQL(ctx context.Context, conn *sql.Conn, q query) (id int64, err error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), VERSION()").Scan(&id, &version); err != nil {
		return 0, err
	}
	var settings []string
	if at, ok := ctx.Deadline(); ok { // the server stops the statement if KILL fails
		timeout := max(time.Until(at)+time.Second, time.Second)
		if strings.Contains(version, "MariaDB") {
			settings = append(settings, fmt.Sprintf("SET SESSION max_statement_time = %.3f", timeout.Seconds()))
		} else {
			settings = append(settings, fmt.Sprintf("SET SESSION max_execution_time = %d", timeout.Milliseconds()))
		}
	}
	if q.reads() {
		settings = append(settings, "SET SESSION TRANSACTION READ ONLY")
	}
	for _, setting := range settings {
		if _, err := conn.ExecContext(ctx, setting); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// killMySQL kills a session. Closing the connection alone would not stop the statement on the server.
func killMySQL(ctx context.Context, pool *sql.DB, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	_, _ = pool.ExecContext(ctx, "KILL "+strconv.FormatInt(id, 10)) // the session may have ended already
}

// queryMySQL runs the query. It returns the number of changed rows.
func queryMySQL(ctx context.Context, cancel func(), conn *sql.Conn, q query, out *table) (int64, error) {
	params := mysqlParameters(q.params)
	if !mysqlReturnsRows(q) {
		result, err := conn.ExecContext(ctx, q.text, params...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
	rows, err := conn.QueryContext(ctx, q.text, params...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	if err := readMySQL(rows, cancel, q, out); err != nil {
		return 0, err
	}
	if q.class.Returning {
		return int64(len(out.rows)), rows.Err()
	}
	return 0, rows.Err()
}

// readMySQL collects the rows. When the rows of a read exceed the limits, it cancels the query.
func readMySQL(rows *sql.Rows, cancel func(), q query, out *table) error {
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	values := make([]any, len(types))
	targets := make([]any, len(types))
	for i, t := range types {
		out.columns = append(out.columns, t.Name())
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		row := make([]json.RawMessage, len(types))
		for i, v := range values {
			row[i] = mysqlCell(types[i].DatabaseTypeName(), v)
		}
		if !out.add(row) && q.reads() {
			cancel()
			return nil
		}
	}
	return rows.Err()
}

// mysqlReturnsRows reports whether the statement returns rows instead of a count.
func mysqlReturnsRows(q query) bool {
	return q.class.Returning || !slices.Contains([]string{
		"INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "SET", "DO",
	}, q.class.Verb)
}

// mysqlParameters passes non-integer numbers as text, so that no digit is lost.
func mysqlParameters(params []any) []any {
	values := make([]any, len(params))
	for i, p := range params {
		values[i] = p
		if n, ok := p.(json.Number); ok {
			values[i] = n.String()
			if v, err := n.Int64(); err == nil {
				values[i] = v
			}
		}
	}
	return values
}

// mysqlCell converts a value of the driver to JSON.
func mysqlCell(kind string, v any) json.RawMessage {
	switch v := v.(type) {
	case nil:
		return null()
	case int64:
		return num(strconv.FormatInt(v, 10))
	case uint64:
		return num(strconv.FormatUint(v, 10))
	case float32:
		return float(float64(v), 32)
	case float64:
		return float(v, 64)
	case []byte:
		return mysqlBytes(kind, v)
	case string: // integers beyond the range of int64
		return mysqlBytes(kind, []byte(v))
	default:
		return str(fmt.Sprint(v))
	}
}

// mysqlBytes converts the text or bytes of a value to JSON, by the name of its type.
func mysqlBytes(kind string, b []byte) json.RawMessage {
	switch kind {
	case "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY", "VECTOR":
		return blob(b)
	case "BIT":
		n := uint64(0)
		for _, c := range b {
			n = n<<8 | uint64(c)
		}
		return num(strconv.FormatUint(n, 10))
	case "DECIMAL", "UNSIGNED BIGINT":
		return num(string(b))
	case "DATETIME":
		return timestamp(string(b), "")
	case "TIMESTAMP":
		return timestamp(string(b), "Z")
	case "JSON":
		if json.Valid(b) {
			return slices.Clone(b)
		}
	}
	return str(string(b))
}

func mysqlMessage(err error) string {
	if server, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return fmt.Sprintf("%s (%d)", server.Message, server.Number)
	}
	return ""
}

// mysqlError converts an error of the server, the driver or the connection to a coded error.
func mysqlError(q query, err error) *fault.Error {
	var server *mysql.MySQLError
	if coded, ok := errors.AsType[*fault.Error](err); ok {
		return coded
	}
	if !errors.As(err, &server) {
		var want, got int
		if n, _ := fmt.Sscanf(err.Error(), "sql: expected %d arguments, got %d", &want, &got); n == 2 {
			return wrongCount(want, got)
		}
		return brokenConnection(q, err)
	}
	switch server.Number {
	case 1792, 1290: // read-only transaction, read-only server
		return readOnlyError(err, mysqlMessage(err))
	case 1969, 3024: // max_statement_time, max_execution_time
		return timeoutError(err)
	}
	return queryError(err, mysqlMessage(err))
}
