package db_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/db"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers{m}) }

// servers runs tests with a PostgreSQL and a MariaDB server, whose URLs are in the variables ORCH_TEST_POSTGRES and
// ORCH_TEST_MARIADB. Unless they are set, scripts/databases starts the servers. Where the servers are not installed,
// the URLs are unreachable, and tests that need a server are skipped.
type servers struct{ tests *testing.M }

// Run starts the servers, runs the tests and stops the servers.
func (s servers) Run() int {
	code, err := s.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func (s servers) run() (int, error) {
	if os.Getenv("ORCH_TEST_POSTGRES") != "" && os.Getenv("ORCH_TEST_MARIADB") != "" {
		return s.tests.Run(), nil
	}
	if !need.Installed("initdb") || !need.Installed("mariadbd") {
		noServers = true
		err := errors.Join(os.Setenv("ORCH_TEST_POSTGRES", "postgres://orch:orchTest7secret@127.0.0.1:1/postgres"),
			os.Setenv("ORCH_TEST_MARIADB", "mysql://orch:orchTest7secret@127.0.0.1:1/orch"))
		return s.tests.Run(), err
	}
	cmd := exec.CommandContext(context.Background(), "../../scripts/databases")
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(said)
	for range 2 {
		if !lines.Scan() {
			return 0, fmt.Errorf("the servers did not start: %w", cmd.Wait())
		}
		name, value, _ := strings.Cut(lines.Text(), "=")
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	code := s.tests.Run()
	stop.Close()
	return code, cmd.Wait()
}

// noServers is true when the servers are not installed.
var noServers bool

// needServer skips a test that needs a server which is not installed.
func needServer(t *testing.T, connection string) {
	t.Helper()
	switch connection {
	case "postgres":
		need.That(t, "initdb", !noServers)
	case "mariadb":
		need.That(t, "mariadbd", !noServers)
	}
}

// bench is a tool with the Env of a task, and three named connections: postgres, mariadb and sqlite.
type bench struct {
	t    *testing.T
	env  *tools.Env
	cfg  db.Config
	tool tools.Tool
	// passwords must not appear in any output.
	passwords []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	b := &bench{t: t, cfg: db.Config{Connections: t.TempDir()}, env: &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.InProgress, Root: root,
		Allows: func(tools.Target) bool { return true },
		Log:    slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}}
	for name, text := range map[string]string{
		"postgres": os.Getenv("ORCH_TEST_POSTGRES"), "mariadb": os.Getenv("ORCH_TEST_MARIADB"), "sqlite": "sqlite:" + b.file(),
	} {
		b.connect(name, text)
	}
	b.configure(b.cfg)
	return b
}

// file returns the path of an SQLite database.
func (b *bench) file() string { return filepath.Join(b.env.Root.Name(), "test.db") }

func (b *bench) configure(cfg db.Config) {
	b.cfg = cfg
	b.tool = db.Tools(cfg)[0]
}

// connect creates a named connection.
func (b *bench) connect(name, text string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.cfg.Connections, name), []byte(text+"\n"), 0o600))
	u, err := url.Parse(text)
	require.NoError(b.t, err)
	if password, ok := u.User.Password(); ok {
		b.passwords = append(b.passwords, password)
	}
}

// result is the result of a query.
type result struct {
	Columns      []string `json:"columns"`
	Rows         [][]any  `json:"rows"`
	RowsAffected int64    `json:"rows_affected"`
	Truncated    bool     `json:"truncated"`
	text         string
}

// args returns the arguments of a call.
func (b *bench) args(connection, query string, params ...any) json.RawMessage {
	b.t.Helper()
	m := map[string]any{"connection_string": connection, "query": query}
	if len(params) > 0 {
		m["parameters"] = params
	}
	raw, err := json.Marshal(m)
	require.NoError(b.t, err)
	raw, err = b.tool.Check(raw)
	require.NoError(b.t, err)
	return raw
}

// try runs a query on a named connection, or on a URL.
func (b *bench) try(connection, query string, params ...any) (result, error) {
	b.t.Helper()
	needServer(b.t, connection)
	if !strings.ContainsAny(connection, ":=") {
		connection = "secret://" + connection
	}
	var r result
	out, err := b.tool.Call(b.t.Context(), b.env, b.args(connection, query, params...))
	b.discreet(string(out), err)
	if err != nil {
		return r, err
	}
	toolstest.Output(b.t, b.tool, out)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	dec.UseNumber()
	require.NoError(b.t, dec.Decode(&r))
	r.text = string(out)
	return r, nil
}

// discreet checks that neither an output nor an error, with all its causes, contains a password (S0-124).
func (b *bench) discreet(out string, err error) {
	b.t.Helper()
	if err != nil {
		e := fault.From(err)
		out += e.Error() + e.Hint + e.Reason
		if e.Err != nil {
			out += e.Err.Error()
		}
		assert.NotEqual(b.t, fault.Internal, e.Code, "%v: %v", e, e.Err)
	}
	for _, password := range b.passwords {
		assert.NotContains(b.t, out, password)
	}
}

// run is try for a query that must succeed.
func (b *bench) run(connection, query string, params ...any) result {
	b.t.Helper()
	r, err := b.try(connection, query, params...)
	require.NoError(b.t, err, query)
	return r
}

// refuse is try for a query that must fail with the code.
func (b *bench) refuse(code fault.Code, connection, query string, params ...any) *fault.Error {
	b.t.Helper()
	r, err := b.try(connection, query, params...)
	e := fault.From(err)
	require.NotNil(b.t, e, "%s: %s", query, r.text)
	assert.Equal(b.t, code, e.Code, "%s: %v", query, e)
	return e
}

// fresh creates a table with a unique name on a connection, from columns and rows.
func (b *bench) fresh(connection, columns string, rows ...string) string {
	b.t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_", " ", "_").Replace(b.t.Name()))
	b.run(connection, "CREATE TABLE "+name+" ("+columns+")")
	for _, row := range rows {
		b.run(connection, "INSERT INTO "+name+" VALUES ("+row+")")
	}
	return name
}

// count returns the number of rows of a table.
func (b *bench) count(connection, name string) string {
	b.t.Helper()
	return fmt.Sprint(b.run(connection, "SELECT count(*) FROM "+name).Rows[0][0])
}

func engines() []string { return []string{"postgres", "mariadb", "sqlite"} }

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, test func(t *testing.T, b *bench, connection string)) {
	t.Helper()
	for _, connection := range engines() {
		t.Run(connection, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t), connection)
		})
	}
}

// mark returns the n-th placeholder for an engine.
func mark(connection string, n int) string {
	if connection == "postgres" {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}
