// Package docstore is a client of Cloud Firestore, the one of Google or its emulator. It is a
// firebase.Backend.
//
// What is written is checked here first, with the rules of package document, so that refusals are the same
// for every backend; the server has the last word. Watches and reads go through the library of Google,
// writes to the protocol itself: it has conditions for each kind of write, the library for some.
package docstore

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/account"
	"github.com/orch-dev/orch/tools/firebase/backlog"
)

const (
	// DefaultAnswer is how many bytes the documents of an answer, and those that are watched, may have.
	DefaultAnswer = 32 << 20
	// DefaultCall bounds a call with all its requests.
	DefaultCall = 30 * time.Second
	// server is where Google serves it.
	server = "firestore.googleapis.com:443"
)

// Config is the configuration of a client: either Credentials or Emulator is needed.
type Config struct {
	// Net says what may be reached beside public addresses. The emulator always may.
	Net netguard.Config
	// Project is the id of the project; "" is that of Credentials.
	Project string
	// Database is the id of the database; "" is the default one.
	Database string
	// Credentials is the JSON of a service account.
	Credentials string
	// Emulator is host:port of an emulator, which takes no credentials.
	Emulator string
	// Backlog is how many events a watcher may be behind before it is cut off; 0 is backlog.Default.
	Backlog int
	// MaxAnswer and Call are DefaultAnswer and DefaultCall when they are 0.
	MaxAnswer int
	Call      time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = firestore.DefaultDatabaseID
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

// Client is a Firestore. It is closed after use.
type Client struct {
	cfg    Config
	client *firestore.Client
	raw    firestorepb.FirestoreClient
}

var _ firebase.Backend = (*Client)(nil)

// Open returns a client. It sends nothing. Errors: VALIDATION_ERROR with the name of the setting.
func Open(cfg Config) (*Client, error) { return openAt(cfg, server) }

// openAt returns a client of Google's server at host:port, unless an emulator is configured.
func openAt(cfg Config, server string) (*Client, error) {
	cfg = cfg.withDefaults()
	conn, err := dial(&cfg, server)
	if err != nil {
		return nil, err
	}
	// The connection is made when it is used, so nothing here waits for the context.
	ctx := context.Background()
	library, err := firestore.NewClientWithDatabase(ctx, cfg.Project, cfg.Database, option.WithGRPCConn(conn))
	if err != nil {
		_ = conn.Close() // nothing was sent
		return nil, fault.New(fault.ValidationError, "it cannot be used: %w", err).WithField("firestore_project")
	}
	return &Client{cfg: cfg, client: library, raw: firestorepb.NewFirestoreClient(conn)}, nil
}

// Close ends the connection. What runs ends with CONNECTION_ERROR.
func (c *Client) Close() error { return c.client.Close() }

// dial returns the connection that the configuration asks for, and completes that.
func dial(cfg *Config, server string) (*grpc.ClientConn, error) {
	var to string
	var trust credentials.TransportCredentials
	var who credentials.PerRPCCredentials
	switch {
	case cfg.Emulator != "":
		if _, _, err := net.SplitHostPort(cfg.Emulator); err != nil {
			return nil, fault.New(fault.ValidationError, "it is no host:port").WithField("firestore_emulator")
		}
		to, trust, who = cfg.Emulator, insecure.NewCredentials(), emulatorOwner{}
	case cfg.Credentials != "":
		key, err := account.New(cfg.Net, cfg.Credentials, "https://www.googleapis.com/auth/datastore")
		if err != nil {
			return nil, fault.From(err).WithField("firestore_credentials")
		}
		if cfg.Project == "" {
			cfg.Project = key.Project()
		}
		to, trust, who = server, credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Net.RootCAs}), serviceAccount{key}
	default:
		return nil, fault.New(fault.ValidationError, "Firestore needs the key of a service account, or an emulator").
			WithField("firestore_credentials").WithHint("such as file:~/.orch/firestore.json")
	}
	if cfg.Project == "" {
		return nil, fault.New(fault.ValidationError, "Firestore needs the id of a project").WithField("firestore_project")
	}
	return connection(cfg.Net, to, trust, who)
}

// connection makes its TCP connections under the rules of package netguard, and knows no proxy.
func connection(
	network netguard.Config, to string, trust credentials.TransportCredentials, who credentials.PerRPCCredentials,
) (*grpc.ClientConn, error) {
	network.Hosts = append(append([]string{}, network.Hosts...), to)
	guard := netguard.New(network)
	conn, err := grpc.NewClient("passthrough:///"+to,
		grpc.WithTransportCredentials(trust), grpc.WithPerRPCCredentials(who), grpc.WithNoProxy(),
		grpc.WithContextDialer(guard.Dial), grpc.WithUserAgent("orch"), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "there is no way to connect to it: %w", err).WithField("firestore_emulator")
	}
	return conn, nil
}

// emulatorOwner is whom an emulator lets do everything.
type emulatorOwner struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (emulatorOwner) RequireTransportSecurity() bool { return false }

// serviceAccount is a service account.
type serviceAccount struct{ *account.Account }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (h serviceAccount) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := h.Token(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (serviceAccount) RequireTransportSecurity() bool { return true }
