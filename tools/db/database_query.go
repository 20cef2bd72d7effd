package db

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/classify/sql"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type databaseQueryIn struct {
	ConnectionString string            `json:"connection_string" jsonschema:"Database: secret://NAME for a named connection of the node, or a URL without password: postgres://user@host:5432/name, mysql://user@host:3306/name, sqlite:/absolute/path" minLength:"1"`
	Query            string            `json:"query" jsonschema:"One SQL statement; placeholders are $1 for PostgreSQL, ? for MySQL and SQLite" minLength:"1"`
	Parameters       []json.RawMessage `json:"parameters,omitempty" jsonschema:"Values for the placeholders, in order; they are bound, never inserted into the text. Objects and lists are passed as JSON text"`
}

type databaseQueryOut struct {
	Columns      []string            `json:"columns" jsonschema:"Names of the columns"`
	Rows         [][]json.RawMessage `json:"rows" jsonschema:"Values in the order of columns. Numbers keep all digits, times are RFC 3339 if the database stores the zone, bytes are base64"`
	RowsAffected int64               `json:"rows_affected" jsonschema:"Number of rows that were changed, 0 for a read"`
	Truncated    bool                `json:"truncated" jsonschema:"There were more rows than the limits permit"`
}

// databaseQuery is DATABASE_QUERY (S0-120 to S0-124, A-37, A-38). Its Intent contains the database that a call accesses
// and the class of the statement.
func databaseQuery(cfg Config) tools.Tool {
	return tools.WithEffect[databaseQueryIn, databaseQueryOut](tools.DefineIntent(tools.Spec{
		Name:    "DATABASE_QUERY",
		Title:   "Query a database",
		Purpose: "Execute database query",
		Conditions: []string{
			"Task state: IN_PROGRESS",
			"Connection approved in plan",
			"SELECT queries: no approval",
			"INSERT/UPDATE: standard approval",
			"DELETE/DROP, and statements that cannot be classified: awaiting approval",
		},
		Effect:     tools.Write,
		MayDestroy: true,
		Gate:       tools.InProgress,
		Approval:   tools.ByIntent,
		Rate:       tools.Database,
		Content:    []string{"connection_string"},
		Errors: []string{
			"DATABASE_ERROR", "VALIDATION_ERROR", "INVALID_FORMAT", "SECRET_DETECTED", "FORBIDDEN", "NOT_FOUND", "OUTSIDE_ROOT",
			"PROTECTED_PATH", "TIMEOUT", "IN_DOUBT", "APPROVAL_REQUIRED", "RATE_LIMITED",
		},
	}, func(_ context.Context, env *tools.Env, in databaseQueryIn) (tools.Intent, error) {
		c, err := cfg.resolve(env, in.ConnectionString)
		if err != nil {
			return tools.Intent{}, err
		}
		class := sql.Classify(c.dialect, in.Query)
		return tools.Intent{
			Effect: effect(class.Level), Reason: class.Reason,
			Targets: []tools.Target{c.target()}, Files: c.files(class.Level),
		}, nil
	}, func(ctx context.Context, env *tools.Env, in databaseQueryIn) (databaseQueryOut, error) {
		c, err := cfg.resolve(env, in.ConnectionString)
		if err != nil {
			return databaseQueryOut{}, err
		}
		if env.Allows == nil || !env.Allows(c.target()) {
			return databaseQueryOut{}, fault.New(fault.Conflict, "the connection string denotes a different database than when the policy checked the call").
				WithField(connectionField)
		}
		q, err := newQuery(c.dialect, in)
		if err != nil {
			return databaseQueryOut{}, err
		}
		out := &table{maxRows: cfg.MaxRows, maxBytes: cfg.MaxBytes, columns: []string{}, rows: [][]json.RawMessage{}}
		affected, err := c.engine()(ctx, c, q, out)
		if err != nil {
			return databaseQueryOut{}, c.sanitize(ctx, err)
		}
		return databaseQueryOut{Columns: out.columns, Rows: out.rows, RowsAffected: affected, Truncated: out.truncated}, nil
	}), databaseQueryIn.effect)
}

// effect returns the effect of a statement for a connection string whose database is known; "" for a named connection, and without a statement.
func (in databaseQueryIn) effect() tools.Effect {
	c, err := parse(in.ConnectionString)
	if err != nil || in.Query == "" {
		return ""
	}
	return effect(sql.Classify(c.dialect, in.Query).Level)
}

func effect(level sql.Level) tools.Effect {
	switch level {
	case sql.Read:
		return tools.Read
	case sql.Write:
		return tools.Write
	default:
		return tools.Destructive
	}
}

// query is one statement with its parameters.
type query struct {
	text  string
	class sql.Class
	// params are of type nil, bool, json.Number or string.
	params []any
}

func (q query) reads() bool { return q.class.Level == sql.Read }

// engine runs a query on a connection. It adds the rows to out and returns the number of changed rows.
type engine func(ctx context.Context, c connection, q query, out *table) (int64, error)

func (c connection) engine() engine {
	switch c.dialect {
	case sql.Postgres:
		return runPostgres
	case sql.MySQL:
		return runMySQL
	default:
		return runSQLite
	}
}

// newQuery classifies the statement and decodes the parameters.
func newQuery(d sql.Dialect, in databaseQueryIn) (query, error) {
	q := query{text: in.Query, class: sql.Classify(d, in.Query)}
	if q.class.Statements > 1 {
		return q, fault.New(fault.ValidationError, "the text contains %s", q.class.Reason).WithField("query").
			WithHint("a call accepts one statement; use one step for each")
	}
	var err error
	q.params, err = decodeParameters(in.Parameters)
	return q, err
}
