// Package docstore is a client of Cloud Firestore, at Google or in an emulator. It implements firebase.Backend.
//
// Writes are first checked locally with the rules of package document, so that every backend returns the same errors;
// the server has the final decision. Watches and reads use the Google library. Writes use the protocol directly,
// which supports conditions for every kind of write.
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
	// DefaultAnswer limits the bytes of the documents in a response or a watch.
	DefaultAnswer = 32 << 20
	// DefaultCall is the time limit of a call with all its requests.
	DefaultCall = 30 * time.Second
	// server is the server of Google.
	server = "firestore.googleapis.com:443"
)

// Config configures a client. Either Credentials or Emulator is required.
type Config struct {
	// Net configures the permitted addresses besides public ones. The emulator is always permitted.
	Net netguard.Config
	// Project is the id of the project; "" means that of Credentials.
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

// Client is a client of a Firestore database. It must be closed after use.
type Client struct {
	cfg    Config
	client *firestore.Client
	raw    firestorepb.FirestoreClient
}

var _ firebase.Backend = (*Client)(nil)

// Open returns a client. It sends no request. Errors: VALIDATION_ERROR with the name of the setting.
func Open(cfg Config) (*Client, error) { return openAt(cfg, server) }

// openAt returns a client of the server at host:port, unless an emulator is configured.
func openAt(cfg Config, server string) (*Client, error) {
	cfg = cfg.withDefaults()
	conn, err := dial(&cfg, server)
	if err != nil {
		return nil, err
	}
	// The connection is established on first use, so nothing here waits for the context.
	ctx := context.Background()
	library, err := firestore.NewClientWithDatabase(ctx, cfg.Project, cfg.Database, option.WithGRPCConn(conn))
	if err != nil {
		_ = conn.Close() // nothing was sent
		return nil, fault.New(fault.ValidationError, "it cannot be used: %w", err).WithField("firestore_project")
	}
	return &Client{cfg: cfg, client: library, raw: firestorepb.NewFirestoreClient(conn)}, nil
}

// Close closes the connection. Running calls return CONNECTION_ERROR.
func (c *Client) Close() error { return c.client.Close() }

// dial returns the configured connection, and sets the project in cfg.
func dial(cfg *Config, server string) (*grpc.ClientConn, error) {
	var to string
	var transport credentials.TransportCredentials
	var perCall credentials.PerRPCCredentials
	switch {
	case cfg.Emulator != "":
		if _, _, err := net.SplitHostPort(cfg.Emulator); err != nil {
			return nil, fault.New(fault.ValidationError, "it is no host:port").WithField("firestore_emulator")
		}
		to, transport, perCall = cfg.Emulator, insecure.NewCredentials(), emulatorOwner{}
	case cfg.Credentials != "":
		key, err := account.New(cfg.Net, cfg.Credentials, "https://www.googleapis.com/auth/datastore")
		if err != nil {
			return nil, fault.From(err).WithField("firestore_credentials")
		}
		if cfg.Project == "" {
			cfg.Project = key.Project()
		}
		to, transport, perCall = server, credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Net.RootCAs}), serviceAccount{key}
	default:
		return nil, fault.New(fault.ValidationError, "Firestore needs the key of a service account, or an emulator").
			WithField("firestore_credentials").WithHint("such as file:~/.orch/firestore.json")
	}
	if cfg.Project == "" {
		return nil, fault.New(fault.ValidationError, "Firestore needs the id of a project").WithField("firestore_project")
	}
	return connection(cfg.Net, to, transport, perCall)
}

// connection returns a connection that dials under the rules of package netguard and uses no proxy.
func connection(
	network netguard.Config, to string, transport credentials.TransportCredentials, perCall credentials.PerRPCCredentials,
) (*grpc.ClientConn, error) {
	network.Hosts = append(append([]string{}, network.Hosts...), to)
	guard := netguard.New(network)
	conn, err := grpc.NewClient("passthrough:///"+to,
		grpc.WithTransportCredentials(transport), grpc.WithPerRPCCredentials(perCall), grpc.WithNoProxy(),
		grpc.WithContextDialer(guard.Dial), grpc.WithUserAgent("orch"), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "there is no way to connect to it: %w", err).WithField("firestore_emulator")
	}
	return conn, nil
}

// emulatorOwner is the credential that an emulator accepts as administrator.
type emulatorOwner struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (emulatorOwner) RequireTransportSecurity() bool { return false }

// serviceAccount obtains access tokens for a service account.
type serviceAccount struct{ *account.Account }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (h serviceAccount) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := h.Token(ctx)
	if err != nil {
		return nil, tokenStatus(err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (serviceAccount) RequireTransportSecurity() bool { return true }
