package db

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/orch-dev/orch/fault"
)

// The limits for servers.
const (
	connectTime = 15 * time.Second
	// partingTime is the time limit for stopping a statement and closing a connection after the call has ended.
	partingTime = 5 * time.Second
	// maxMessage is the largest row that is accepted from a server, in bytes.
	maxMessage = 64 << 20
)

// runPostgres runs a query with the extended protocol, which accepts one statement and binds parameters. A read runs in
// a read-only transaction, which is always rolled back. The statement cannot make the transaction read-write, because
// PostgreSQL forbids that after the first query in it.
func runPostgres(ctx context.Context, c connection, q query, out *table) (int64, error) {
	if q.class.Verb == "COPY" {
		return 0, fault.New(fault.ValidationError, "COPY has nowhere to read or write").WithField("query").WithHint("use SELECT or INSERT")
	}
	conn, err := dialPostgres(ctx, c, q)
	if err != nil {
		return 0, err
	}
	defer closePostgres(ctx, conn)
	if q.reads() {
		if err := execSimple(ctx, conn, "BEGIN READ ONLY; SELECT 1"); err != nil {
			return 0, postgresError(q, err)
		}
	}
	affected, err := queryPostgres(ctx, conn, q, out)
	if err != nil {
		return 0, postgresError(q, err)
	}
	return affected, nil // closing the connection rolls a read back
}

// dialPostgres opens a connection that is configured for the query.
func dialPostgres(ctx context.Context, c connection, q query) (*pgconn.PgConn, error) {
	address := url.URL{Scheme: "postgres", Host: c.address(), Path: "/", RawQuery: "sslmode=" + c.tls}
	cfg, err := pgconn.ParseConfig(address.String())
	if err != nil {
		return nil, connectError(c, err, "the settings of PostgreSQL in the environment of the node are malformed")
	}
	// PostgreSQL settings in the environment of the node are meant for its user, not for tasks.
	cfg.User, cfg.Password, cfg.Database = c.user, c.password, c.database
	cfg.ConnectTimeout = connectTime
	cfg.MaxProtocolMessageBodyLen = maxMessage
	cfg.RuntimeParams = postgresSettings(ctx, q)
	cfg.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: partingTime}
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		message := ""
		if server, ok := errors.AsType[*pgconn.PgError](err); ok {
			message = server.Message + " (" + server.Code + ")"
		}
		return nil, connectError(c, err, message)
	}
	return conn, nil
}

// postgresSettings returns settings that fix the format of values, make the server tokenize strings as package
// classify/sql does, and stop the statement on the server if it cannot be cancelled.
func postgresSettings(ctx context.Context, q query) map[string]string {
	settings := map[string]string{
		"application_name": "orch", "client_encoding": "UTF8", "TimeZone": "UTC", "DateStyle": "ISO, YMD",
		"IntervalStyle": "iso_8601", "bytea_output": "hex", "standard_conforming_strings": "on",
	}
	if q.reads() {
		settings["default_transaction_read_only"] = "on"
	}
	if at, ok := ctx.Deadline(); ok {
		timeout := max(time.Until(at)+time.Second, time.Second)
		settings["statement_timeout"] = strconv.FormatInt(timeout.Milliseconds(), 10)
	}
	return settings
}

// closePostgres closes the connection even if ctx has ended, and waits until that is done.
func closePostgres(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.CleanupDone():
	case <-ctx.Done():
	}
}

// execSimple runs SQL text that orch itself wrote.
func execSimple(ctx context.Context, conn *pgconn.PgConn, text string) error {
	_, err := conn.Exec(ctx, text).ReadAll()
	return err
}

// queryPostgres runs the query. When the rows of a read exceed the limits, it cancels the rest.
func queryPostgres(ctx context.Context, conn *pgconn.PgConn, q query, out *table) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := conn.ExecParams(ctx, q.text, postgresParameters(q.params), nil, nil, nil)
	for result.NextRow() {
		fields := result.FieldDescriptions()
		row := make([]json.RawMessage, len(fields))
		for i, value := range result.Values() {
			row[i] = postgresCell(fields[i].DataTypeOID, value)
		}
		if !out.add(row) && q.reads() {
			break
		}
	}
	for _, f := range result.FieldDescriptions() {
		out.columns = append(out.columns, f.Name)
	}
	if out.truncated && q.reads() {
		cancel()
		_, _ = result.Close() // returns the cancellation error
		return 0, nil
	}
	tag, err := result.Close()
	if err != nil || tag.Select() {
		return 0, err
	}
	return tag.RowsAffected(), nil
}

// postgresParameters returns the parameters as text; the server knows the type of each placeholder.
func postgresParameters(params []any) [][]byte {
	values := make([][]byte, len(params))
	for i, p := range params {
		if p != nil {
			values[i] = fmt.Append(nil, p)
		}
	}
	return values
}

// The object ids, which never change, of the PostgreSQL types whose text is not returned as a plain JSON string.
const (
	oidBool, oidBytea, oidJSON, oidJSONB, oidTimestamp, oidTimestamptz  = 16, 17, 114, 3802, 1114, 1184
	oidInt8, oidInt2, oidInt4, oidOID, oidFloat4, oidFloat8, oidNumeric = 20, 21, 23, 26, 700, 701, 1700
)

// postgresCell converts the text of a value to JSON.
func postgresCell(oid uint32, value []byte) json.RawMessage {
	if value == nil {
		return null()
	}
	s := string(value)
	switch oid {
	case oidBool:
		return json.RawMessage(strconv.FormatBool(s == "t"))
	case oidInt2, oidInt4, oidInt8, oidOID, oidFloat4, oidFloat8, oidNumeric:
		return num(s)
	case oidJSON, oidJSONB:
		if json.Valid(value) {
			return json.RawMessage(s)
		}
	case oidBytea:
		if b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`)); err == nil {
			return blob(b)
		}
	case oidTimestamp:
		return timestamp(s, "")
	case oidTimestamptz:
		if utc, ok := strings.CutSuffix(s, "+00"); ok {
			return timestamp(utc, "Z")
		}
	}
	return str(s)
}

// postgresError converts an error of the server or the connection to a coded error.
func postgresError(q query, err error) *fault.Error {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return brokenConnection(q, err)
	}
	message := server.Message + " (" + server.Code + ")"
	if server.Position > 0 {
		message += fmt.Sprintf(" at character %d", server.Position)
	}
	switch server.Code {
	case "25006": // read_only_sql_transaction
		return readOnlyError(err, message)
	case "57014": // query_canceled, by statement_timeout
		return timeoutError(err)
	case "08P01": // protocol_violation: the number of parameters
		return fault.Wrap(fault.ValidationError, err, server.Message).WithField("parameters")
	}
	e := queryError(err, message)
	if server.Hint != "" {
		e.Hint = server.Hint
	}
	return e
}
