package db

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/classify/sql"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// connection is a parsed connection string: a database and the credentials for it.
type connection struct {
	dialect sql.Dialect
	// host, port and database identify a database on a server; host is in lower case.
	host           string
	port           uint16
	database       string
	user, password string
	// tls is disable, prefer, require or verify-full, as in the option sslmode of PostgreSQL.
	tls string
	// file is the real absolute path of an SQLite file.
	file string
}

// name returns the name of the database for people and policies, without user and password.
func (c connection) name() string {
	if c.dialect == sql.SQLite {
		return "sqlite:" + c.file
	}
	return string(c.dialect) + "://" + c.address() + "/" + c.database
}

func (c connection) target() tools.Target {
	return tools.Target{Kind: tools.Connection, Name: c.name()}
}

// files returns the file that a statement of the level accesses; nil for a database on a server.
func (c connection) files(level sql.Level) []tools.File {
	if c.dialect != sql.SQLite {
		return nil
	}
	access := tools.WritePath
	if level == sql.Read {
		access = tools.ReadPath
	}
	return []tools.File{{Field: connectionField, Path: c.file, Access: access}}
}

func (c connection) address() string { return net.JoinHostPort(c.host, strconv.Itoa(int(c.port))) }

// secretScheme is the prefix of a reference to a named connection.
const secretScheme = "secret://"

// resolve returns the connection for a connection string. Results and errors never repeat the text of a URL, which may
// contain a password (S0-124).
func (cfg Config) resolve(env *tools.Env, text string) (connection, error) {
	name, named := strings.CutPrefix(text, secretScheme)
	if named {
		var err error
		if text, err = cfg.namedURL(name); err != nil {
			return connection{}, err
		}
	}
	c, err := parse(text)
	if err != nil {
		return connection{}, err.WithField(connectionField)
	}
	switch {
	case c.dialect == sql.SQLite:
		return c.confineFile(env)
	case named:
		return c, nil
	case c.password != "":
		return connection{}, fault.New(fault.SecretDetected, "the connection string contains a password").WithField(connectionField).
			WithHint("keep the URL as a named connection of the node and write %sNAME", secretScheme)
	case cfg.Hosts != nil && !slices.Contains(cfg.Hosts, c.address()):
		return connection{}, fault.New(fault.Forbidden, "%s is not one of the servers that this node may access", c.address()).
			WithField(connectionField).WithHint("the operator of the node can permit the server, or configure a named connection")
	}
	return c, nil
}

const connectionField = "connection_string"

// namedURL returns the URL of a named connection from its file.
func (cfg Config) namedURL(name string) (string, error) {
	const longest = 4096 // bytes
	missing := fault.New(fault.NotFound, "this node has no connection with this name").WithField(connectionField).
		WithHint("the operator puts its URL into the file connections/NAME of the data directory")
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(name) {
		return "", fault.New(fault.InvalidFormat, "the name of a connection has letters, digits, _, . and -, at most 64").
			WithField(connectionField)
	}
	if cfg.Connections == "" {
		return "", missing
	}
	data, err := os.ReadFile(filepath.Join(cfg.Connections, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", missing
	case err != nil:
		return "", fault.Wrap(fault.Forbidden, err, "the named connection cannot be read").WithField(connectionField)
	case len(data) > longest:
		return "", malformed("the named connection is not a URL")
	}
	return strings.TrimSpace(string(data)), nil
}

// parse parses a URL. It accepts only the listed parts and options, so that no driver option can change the server,
// name a file or disable a safeguard.
func parse(text string) (connection, *fault.Error) {
	u, err := url.Parse(text)
	if err != nil {
		return connection{}, malformed("it is not a URL")
	}
	c := connection{database: strings.TrimPrefix(u.Path, "/"), host: strings.ToLower(u.Hostname())}
	var port int
	switch strings.ToLower(u.Scheme) {
	case "postgres", "postgresql":
		c.dialect, port = sql.Postgres, 5432
	case "mysql", "mariadb":
		c.dialect, port = sql.MySQL, 3306
	case "sqlite", "sqlite3":
		if u.Opaque != "" || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) {
			return connection{}, malformed("sqlite:/absolute/path names a file and takes no options")
		}
		return connection{dialect: sql.SQLite, file: u.Path}, nil
	default:
		return connection{}, fault.New(fault.ValidationError, "the scheme must be postgres, mysql, mariadb, sqlite or secret")
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return connection{}, malformed("the port is not valid")
		}
	}
	c.port = uint16(port)
	c.user = u.User.Username()
	c.password, _ = u.User.Password()
	return c, c.complete(u)
}

// complete validates the parts of a server URL and reads its options.
func (c *connection) complete(u *url.URL) *fault.Error {
	switch {
	case !regexp.MustCompile(`^[a-z0-9._-]+$`).MatchString(c.host) && net.ParseIP(c.host) == nil:
		return malformed("it needs one host, by name or address")
	case c.user == "":
		return malformed("it needs a user, as in postgres://user@host/name")
	case strings.ContainsAny(c.database, "/\x00") || strings.Contains(c.user+c.password, "\x00"):
		return malformed("the name of the database, the user or the password is not valid")
	case u.Fragment != "":
		return malformed("it has a part behind #, which must be written %23 when it belongs to the password")
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return malformed("its options are malformed")
	}
	c.tls = "prefer"
	for key, values := range options {
		switch {
		case strings.Contains(strings.ToLower(key), "pass"):
			return fault.New(fault.SecretDetected, "the connection string contains a password as an option").
				WithHint("keep the URL as a named connection of the node and write %sNAME", secretScheme)
		case key != "sslmode":
			return fault.New(fault.ValidationError, "only the option sslmode is known")
		case !slices.Contains([]string{"disable", "prefer", "require", "verify-full"}, values[0]) || len(values) > 1:
			return fault.New(fault.ValidationError, "sslmode is disable, prefer, require or verify-full")
		}
		c.tls = values[0]
	}
	return nil
}

func malformed(why string) *fault.Error {
	return fault.New(fault.InvalidFormat, "the connection string is malformed: %s", why).WithField(connectionField).
		WithHint("write postgres://user@host:5432/name, mysql://user@host:3306/name, sqlite:/absolute/path or secret://NAME")
}

// confineFile resolves an SQLite file inside the root. The data directory of the node and the directories .git and
// .orch are protected.
func (c connection) confineFile(env *tools.Env) (connection, error) {
	rel, err := env.Root.Resolve(c.file)
	if err != nil {
		return c, fault.From(err).WithField(connectionField)
	}
	c.file = env.Root.Abs(rel)
	for part := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, ".orch") {
			return c, fault.New(fault.ProtectedPath, "%s is protected: it belongs to a .git or .orch directory", c.file).
				WithField(connectionField)
		}
	}
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		info, err := env.Root.Lstat(rel + suffix)
		if err == nil && !info.Mode().IsRegular() {
			return c, fault.New(fault.InvalidFormat, "%s is not a regular file", c.file+suffix).WithReason("INVALID_PATH").WithField(connectionField)
		}
	}
	return c, nil
}
