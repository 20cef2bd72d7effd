package bus

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
)

// The two users of the embedded server.
const (
	// OperatorUser may do everything; the node and the command line use it.
	OperatorUser = "operator"
	// WorkerUser may call the work protocol, publish notifications, and nothing else.
	WorkerUser = "worker"
)

const (
	reconnectWait = 100 * time.Millisecond
	dialWithin    = 5 * time.Second
	// greetWithin is how long a server of a cluster may take to greet before the next one is tried.
	greetWithin = 2 * time.Second
)

// A server that hangs keeps its connections open. So the link is watched: a server that has left maxSilentPings pings
// without an answer, or takes nothing for writeWithin, has lost its client, who goes to another one.
const (
	pingEvery      = time.Second
	maxSilentPings = 2
	writeWithin    = 2 * time.Second
)

// DialConfig says which server to connect to, and as whom.
type DialConfig struct {
	// URL of the server, or several with commas. When it is empty the address and the credentials
	// come from DataDir.
	URL string
	// DataDir of a running node on this machine.
	DataDir string
	// User and Password; with a DataDir and no password the one of its auth.json, for OperatorUser
	// unless User says otherwise.
	User     string
	Password string
	// Token is the secret of a token of the node, to speak as its identity instead of as the operator.
	Token string
	// CredsFile is a NATS credentials file, for servers that use them.
	CredsFile string
	// Worker keeps the answers to this connection where those to workers are, as WorkerUser has them: at an external server
	// the users have other names.
	Worker bool
	// Lease lets what is served over the connection be answered by its holder alone; nil where nobody else could.
	Lease Lease
	// Name shows in the server's list of connections; default "orch".
	Name string
	// Logger gets disconnects and asynchronous errors; nil discards them.
	Logger *slog.Logger
}

// Conn is a connection to a NATS server, safe for concurrent use. It reconnects by itself.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	target target
	link   *lossNotifier
	// lease is that of the node which serves here; nil where none is needed.
	lease Lease
	// replicated is set when the streams are on several servers, of which one may know less than another.
	replicated atomic.Bool
}

// target is all that is needed to connect once more.
type target struct {
	config DialConfig
	// nodeDir is the data directory whose node is meant, wherever it listens; empty for a fixed address.
	nodeDir     string
	server      *Server // set inside the process of the server
	reconnected func()
}

// Dial connects to a server over the network. Errors: UNAVAILABLE when none answers or no node runs
// on the data directory, UNAUTHORIZED.
func Dial(ctx context.Context, cfg DialConfig) (*Conn, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		cfg.Name = "orch"
	}
	t := target{}
	if cfg.URL == "" {
		t.nodeDir = cfg.DataDir
	}
	if err := cfg.fromDataDir(); err != nil {
		return nil, err
	}
	t.config = cfg
	return connect(ctx, t)
}

// nodeDialer finds the node of a data directory anew for every connection: after a restart it may
// listen on another port than the one that the client knows.
type nodeDialer string

// Dial implements nats.CustomDialer.
func (dir nodeDialer) Dial(network, address string) (net.Conn, error) {
	if info, err := readNode(string(dir)); err == nil {
		address = strings.TrimPrefix(info.URL, "nats://")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func (c *DialConfig) fromDataDir() error {
	if c.URL == "" && c.DataDir == "" {
		return fault.New(fault.RequiredField, "neither a server nor a data directory is given").WithField("url")
	}
	if c.URL == "" {
		info, err := readNode(c.DataDir)
		if err != nil {
			return noNode(c.DataDir, err)
		}
		c.URL = info.URL
	}
	if c.DataDir == "" || c.Password != "" || c.CredsFile != "" || c.Token != "" {
		return nil
	}
	auth, err := readCredentials(c.DataDir)
	if err != nil {
		return err
	}
	if c.User == WorkerUser {
		c.Password = auth.Worker
		return nil
	}
	c.User, c.Password = OperatorUser, auth.Operator
	return nil
}

func connect(ctx context.Context, t target) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From(err)
	}
	lost := &lossNotifier{}
	opts := t.options(lost)
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(min(time.Until(deadline), t.dialTimeout())))
	}
	nc, err := nats.Connect(t.config.URL, opts...)
	if err != nil {
		return nil, t.fault(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fault.Wrap(fault.Internal, err, "JetStream cannot be used")
	}
	c := &Conn{nc: nc, js: js, target: t, link: lost, lease: t.config.Lease}
	if err := c.watchNodes(); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// dialTimeout is how long one attempt to connect may take: where there are several servers the next one may be better.
func (t *target) dialTimeout() time.Duration {
	if strings.Contains(t.config.URL, ",") {
		return greetWithin
	}
	return dialWithin
}

// options never lets the client keep messages while it is disconnected: who sends must learn at once
// that nothing was sent.
func (t *target) options(lost *lossNotifier) []nats.Option {
	c, log := t.config, t.config.Logger
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.Timeout(t.dialTimeout()),
		nats.SyncQueueLen(2 * pageCount), // readers ask page by page; the default costs each 0.5 MB
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			lost.lost()
			log.Debug("bus disconnected", slog.String("conn", c.Name), slog.Any("error", err))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("bus error", slog.String("conn", c.Name), slog.Any("error", err))
		}),
	}
	if t.reconnected != nil {
		opts = append(opts, nats.ReconnectHandler(func(*nats.Conn) { t.reconnected() }))
	}
	if t.server != nil {
		opts = append(opts, nats.InProcessServer(t.server))
	} else {
		opts = append(opts, nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(maxSilentPings),
			nats.FlusherTimeout(writeWithin), nats.ReconnectOnFlusherError())
	}
	if t.nodeDir != "" {
		opts = append(opts, nats.SetCustomDialer(nodeDialer(t.nodeDir)))
	}
	if c.User == WorkerUser || c.Worker {
		opts = append(opts, nats.CustomInboxPrefix(workerInbox))
	}
	if c.Token != "" {
		opts = append(opts, nats.CustomInboxPrefix(IdentityInbox(agents.DigestOf(c.Token))))
	}
	if c.CredsFile != "" {
		return append(opts, nats.UserCredentials(c.CredsFile))
	}
	if c.Token != "" {
		return append(opts, nats.Token(c.Token))
	}
	if c.User != "" {
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	}
	return opts
}

func noNode(dir string, err error) error {
	return fault.Wrap(fault.Unavailable, err, "no node runs on the data directory "+dir).WithHint("start one with: orch serve")
}

// nodeDied reports whether the node of the data directory was killed: its address is still there, and another server may be at
// it by now, which refuses the credential.
func (t *target) nodeDied() bool {
	info, err := readNode(t.nodeDir)
	return t.nodeDir != "" && err == nil && errors.Is(syscall.Kill(info.PID, 0), syscall.ESRCH)
}

func (t *target) fault(err error) error {
	url := secrets.URL(t.config.URL)
	switch refused := errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired); {
	case refused && t.nodeDied():
		return noNode(t.nodeDir, err)
	case refused:
		return fault.Wrap(fault.Unauthorized, err, "the server refuses the credential").
			WithHint("check user, password or credentials file, or the auth.json of the data directory")
	case url == "":
		return fault.Wrap(fault.Unavailable, err, "the embedded server does not answer")
	default:
		return fault.Wrap(fault.Unavailable, err, "no server answers at "+url).
			WithHint("start the node with: orch serve, or check the address")
	}
}

// openSecond opens a second connection to the same server.
func (c *Conn) openSecond(ctx context.Context, name string, reconnected func()) (*Conn, error) {
	t := c.target
	t.config.Name += " " + name
	t.reconnected = reconnected
	return connect(ctx, t)
}

// External reports whether the server belongs to no node: nodes come and go, and requests go to whichever is active.
func (c *Conn) External() bool { return c.target.server == nil && c.target.nodeDir == "" }

// maxCommit returns the bytes of commits that a message has room for.
func (c *Conn) maxCommit() int {
	const headers = 4 << 10 // more than the headers of a commit or of a part of the archive ever need
	return int(c.nc.MaxPayload()) - headers
}

// incarnation is that of the embedded server, 0 for an external one.
func (c *Conn) incarnation() uint64 {
	if c.target.server == nil {
		return 0
	}
	return c.target.server.incarnation.Load()
}

// Close drops the connection. It is idempotent.
func (c *Conn) Close() { c.nc.Close() }

// NATS returns the connection itself, for requests and their answers.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Token returns the secret with which the connection speaks as an identity; empty when it is the operator's, or a worker's.
func (c *Conn) Token() string { return c.target.config.Token }

// OnLoss calls f when the connection is lost the next time, unless stop came first. It does not wait for f.
func (c *Conn) OnLoss(f func()) (stop func()) { return c.link.onLoss(f) }

// Leased reports whether a lease says who answers what is served over the connection, see DialConfig.Lease.
func (c *Conn) Leased() bool { return c.lease != nil }
