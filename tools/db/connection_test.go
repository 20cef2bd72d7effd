package db_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/db"
)

// target returns the target of a connection string.
func (b *bench) target(connection string) (string, error) {
	b.t.Helper()
	intender, ok := b.tool.(tools.Intender)
	require.True(b.t, ok)
	intent, err := intender.Intent(b.t.Context(), b.env, b.args(connection, "SELECT 1"))
	if err != nil {
		return "", err
	}
	return intent.Targets[0].Name, nil
}

// the forms of a connection string and the names of their targets.
func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := b.env.Root.Name()
	for text, want := range map[string]string{
		"postgres://u@db/orders":                      "postgres://db:5432/orders",
		"postgresql://u@DB.example:6543/orders":       "postgres://db.example:6543/orders",
		"postgres://u@[::1]/orders?sslmode=require":   "postgres://[::1]:5432/orders",
		"mysql://u@db/orders":                         "mysql://db:3306/orders",
		"MariaDB://u@10.0.0.1:3307/":                  "mysql://10.0.0.1:3307/",
		"sqlite:" + root + "/a.db":                    "sqlite:" + root + "/a.db",
		"sqlite3://" + root + "/x/../b.db":            "sqlite:" + root + "/b.db",
		"postgres://u:@db/orders?sslmode=verify-full": "postgres://db:5432/orders",
	} {
		got, err := b.target(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestBadConnectionStrings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for text, want := range map[string]fault.Code{
		"oracle://u@db/x":                            fault.ValidationError,
		"host=db user=u dbname=x":                    fault.ValidationError,
		"u:hunter2pw@tcp(db:3306)/x":                 fault.ValidationError,
		"file:///etc/x.db":                           fault.ValidationError,
		":memory:":                                   fault.InvalidFormat,
		"postgres://u@db/x?host=evil":                fault.ValidationError,
		"postgres://u@db/x?sslmode=no":               fault.ValidationError,
		"postgres://u@db/x?sslmode=require&sslmode=": fault.ValidationError,
		"postgres://u@db/x?options=-c%20a=b":         fault.ValidationError,
		"mysql://u@db/x?allowAllFiles=true":          fault.ValidationError,
		"postgres://u@a,b/x":                         fault.InvalidFormat,
		"postgres://u@/x":                            fault.InvalidFormat,
		"postgres://db/x":                            fault.InvalidFormat,
		"postgres://u@db:0/x":                        fault.InvalidFormat,
		"postgres://u@db:99999/x":                    fault.InvalidFormat,
		"postgres://u@db/x/y":                        fault.InvalidFormat,
		"postgres://u@%2Ftmp/x":                      fault.InvalidFormat,
		"sqlite:relative.db":                         fault.InvalidFormat,
		"sqlite://host/x.db":                         fault.InvalidFormat,
		"sqlite:/x.db?mode=rw":                       fault.InvalidFormat,
		"sqlite:/etc/passwd":                         fault.OutsideRoot,
		"secret://":                                  fault.InvalidFormat,
		"secret://../postgres":                       fault.InvalidFormat,
		"secret://a/b":                               fault.InvalidFormat,
		"secret://nowhere":                           fault.NotFound,
		"postgres://u:hunter2pw@db/x":                fault.SecretDetected,
		"postgres://u:$PASSWORD@db/x":                fault.SecretDetected,
		"mysql://u:hunter2pw@db/x":                   fault.SecretDetected,
		"postgres://u@db/x?password=hunter2pw":       fault.SecretDetected,
		"postgres://u:hunter2pw@db:port/x":           fault.InvalidFormat,
		"postgres://u:hunter2pw@db/x#y":              fault.InvalidFormat,
		"postgres://u:hun%zzter2pw@db/x":             fault.InvalidFormat,
	} {
		for _, ask := range []func() error{
			func() error { _, err := b.target(text); return err },
			func() error { _, err := b.try(text, "SELECT 1"); return err },
		} {
			err := ask()
			e := fault.From(err)
			require.NotNil(t, e, text)
			assert.Equal(t, want, e.Code, "%s: %v", text, e)
			assert.Equal(t, "connection_string", e.Field, text)
			assert.NotContains(t, e.Error()+e.Hint, "hunter2pw")
		}
	}
}

func TestNamedConnections(t *testing.T) {
	t.Parallel()
	needServer(t, "postgres")
	needServer(t, "mariadb")
	b := newBench(t)
	b.configure(db.Config{})
	_ = b.refuse(fault.NotFound, "postgres", "SELECT 1")

	b = newBench(t)
	b.connect("wrong", strings.Replace(os.Getenv("ORCH_TEST_POSTGRES"), "orchTest7secret", "another8secret", 1))
	b.connect("wrong-mariadb", strings.Replace(os.Getenv("ORCH_TEST_MARIADB"), "orchTest7secret", "another8secret", 1))
	b.connect("odd", "oracle://scott:tiger99@db/x")
	for _, name := range []string{"wrong", "wrong-mariadb"} {
		e := b.refuse(fault.DatabaseError, name, "SELECT 1")
		assert.Equal(t, "CONNECTION_FAILED", e.Reason)
		assert.Equal(t, "connection_string", e.Field)
	}
	_ = b.refuse(fault.ValidationError, "odd", "SELECT 1")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	for _, scheme := range []string{"postgres", "mysql"} {
		b.connect(scheme+"-gone", scheme+"://u:hunter2pw@"+address+"/x")
		e := b.refuse(fault.DatabaseError, scheme+"-gone", "SELECT 1")
		assert.Equal(t, "CONNECTION_FAILED", e.Reason)
		assert.Contains(t, e.Message, "connection refused")
		assert.Contains(t, e.Message, address)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := b.cfg
	cfg.Hosts = []string{"db:5432"}
	b.configure(cfg)
	_, err := b.target("postgres://u@db/x")
	require.NoError(t, err)
	_, err = b.target("postgres://u@db:5433/x")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = b.target("secret://postgres")
	require.NoError(t, err)
}

// PostgreSQL settings in the environment of the node are never sent to a server that a task names.
func TestEnvironmentIsNotUsed(t *testing.T) {
	needServer(t, "postgres")
	b := newBench(t)
	t.Setenv("PGPASSWORD", "orchTest7secret")
	t.Setenv("PGUSER", "orch")
	t.Setenv("PGHOST", "elsewhere.invalid")
	u := strings.Replace(os.Getenv("ORCH_TEST_POSTGRES"), ":orchTest7secret", "", 1)
	e := b.refuse(fault.DatabaseError, u, "SELECT 1")
	assert.Equal(t, "CONNECTION_FAILED", e.Reason)
	b.run("postgres", "SELECT 1")
}

func TestFilesOfSQLiteAreConfined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := b.env.Root.Name()
	outside := filepath.Join(t.TempDir(), "outside.db")
	b.run("sqlite", "CREATE TABLE t (a)")
	data, err := os.ReadFile(b.file())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(outside, data, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "link.db")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, ".git"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "side.db"), data, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "side.db-wal")))
	for path, code := range map[string]fault.Code{
		outside:                               fault.OutsideRoot,
		filepath.Join(root, "link.db"):        fault.OutsideRoot,
		filepath.Join(root, "..", "x.db"):     fault.OutsideRoot,
		filepath.Join(root, ".git", "x.db"):   fault.ProtectedPath,
		filepath.Join(root, ".orch", "x.db"):  fault.ProtectedPath,
		filepath.Join(root, "side.db"):        fault.InvalidFormat,
		root:                                  fault.InvalidFormat,
		filepath.Join(root, "missing.db"):     fault.NotFound,
		filepath.Join(root, "no", "where.db"): fault.NotFound,
	} {
		e := b.refuse(code, "sqlite:"+path, "SELECT 1")
		assert.Equal(t, "connection_string", e.Field, path)
	}
	_ = b.refuse(fault.NotFound, "sqlite:"+filepath.Join(root, "missing.db"), "INSERT INTO t VALUES (1)")
	assert.NoFileExists(t, filepath.Join(root, "missing.db"))
	require.NoError(t, os.WriteFile(filepath.Join(root, "text.db"), []byte(strings.Repeat("no database ", 100)), 0o600))
	_ = b.refuse(fault.InvalidFormat, "sqlite:"+filepath.Join(root, "text.db"), "SELECT * FROM t")
}
