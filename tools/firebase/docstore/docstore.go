// Package docstore is a client of Cloud Firestore, at Google or in an emulator. It implements firebase.Backend.
//
// Writes are first checked locally with the rules of package document, so that every backend returns the same errors;
// the server has the final decision.
package docstore

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/account"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/grpc"
)

const (
	// DefaultAnswer is the default maximum size of the documents in a response or a watch, in bytes.
	DefaultAnswer = 32 << 20
	// DefaultCall is the default time limit of a call with all its requests.
	DefaultCall = 30 * time.Second
	// defaultDatabase is the id of the database that every project may have.
	defaultDatabase = "(default)"
	// server is the server of Google.
	server = "firestore.googleapis.com:443"
)

// Config configures a client. Either Credentials or Emulator is required.
type Config struct {
	// Net configures which addresses, besides public ones, are permitted. The emulator is always permitted.
	Net netguard.Config
	// Project is the id of the project; "" means the project of Credentials.
	Project string
	// Database is the id of the database; "" means the default one.
	Database string
	// Credentials is the JSON key of a service account.
	Credentials string
	// Emulator is the host:port of an emulator, which accepts no credentials.
	Emulator string
	// Backlog is how many events a watcher may be behind before its watch ends; 0 means backlog.Default.
	Backlog int
	// MaxAnswer and Call default to DefaultAnswer and DefaultCall when 0.
	MaxAnswer int
	Call      time.Duration
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = defaultDatabase
	}
	if c.Backlog == 0 {
		c.Backlog = backlog.Default
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = DefaultAnswer
	}
	if c.Call == 0 {
		c.Call = DefaultCall
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Client is a client of a Firestore database. It must be closed after use.
type Client struct {
	cfg  Config
	conn *grpc.Client
}

var _ firebase.Backend = (*Client)(nil)

// Open returns a client. It sends no request. Errors: VALIDATION_ERROR with the name of the setting.
func Open(cfg Config) (*Client, error) { return openAt(cfg, server) }

// openAt returns a client of the server at host:port, or of the emulator if one is configured.
func openAt(cfg Config, server string) (*Client, error) {
	cfg = cfg.withDefaults()
	conn, err := dial(&cfg, server)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, conn: conn}, nil
}

// Close closes the connection. Running calls return CONNECTION_ERROR.
func (c *Client) Close() error {
	c.conn.Close()
	return nil
}

// dial returns the configured connection, and sets the project in cfg.
func dial(cfg *Config, server string) (*grpc.Client, error) {
	connection := grpc.Config{Agent: "orch"}
	switch {
	case cfg.Emulator != "":
		if _, _, err := net.SplitHostPort(cfg.Emulator); err != nil {
			return nil, fault.New(fault.ValidationError, "it is no host:port").WithField("firestore_emulator")
		}
		connection.Target, connection.Authorize = cfg.Emulator, emulatorOwner
	case cfg.Credentials != "":
		key, err := account.New(cfg.Net, cfg.Credentials, "https://www.googleapis.com/auth/datastore")
		if err != nil {
			return nil, fault.From(err).WithField("firestore_credentials")
		}
		if cfg.Project == "" {
			cfg.Project = key.Project()
		}
		connection.Target, connection.Authorize = server, serviceAccount{key}.authorize
		connection.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Net.RootCAs}
	default:
		return nil, fault.New(fault.ValidationError, "Firestore needs the key of a service account, or an emulator").
			WithField("firestore_credentials").WithHint("such as file:~/.orch/firestore.json")
	}
	if cfg.Project == "" {
		return nil, fault.New(fault.ValidationError, "Firestore needs the id of a project").WithField("firestore_project")
	}
	// The connection dials under the rules of package netguard and uses no proxy.
	network := cfg.Net
	network.Hosts = append(append([]string{}, network.Hosts...), connection.Target)
	connection.Dial = netguard.New(network).Dial
	return grpc.New(connection), nil
}

// emulatorOwner returns the credential that an emulator accepts for all operations.
func emulatorOwner(context.Context) (string, error) { return "Bearer owner", nil }

// serviceAccount obtains access tokens for a service account.
type serviceAccount struct{ *account.Account }

// authorize returns the value of the header Authorization.
func (h serviceAccount) authorize(ctx context.Context) (string, error) {
	token, err := h.Token(ctx)
	if err != nil {
		return "", tokenStatus(err)
	}
	return "Bearer " + token, nil
}
