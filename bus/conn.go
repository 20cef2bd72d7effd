package bus

import (
	"context"
	"errors"
	"io/fs"
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

// The two users of the embedded server that have a password.
const (
	// OperatorUser is the user of the node and of the command line, with all permissions but to publish as another identity
	// and to write to the log.
	OperatorUser = "operator"
	// WorkerUser may only call the work protocol and publish notifications.
	WorkerUser = "worker"
)

// appenderUser is the user of the connection for appends to the log of an embedded server. Its password never leaves the process.
const appenderUser = "appender"

const (
	reconnectWait = 100 * time.Millisecond
	dialWithin    = 5 * time.Second
	// localDialWithin is dialWithin for the embedded server, from its own process and others on the machine. They may have to wait for
	// a processor.
	localDialWithin = 30 * time.Second
	// greetWithin is how long a server of a cluster may take to send its greeting before the next one is tried.
	greetWithin = 2 * time.Second
)

// A server that hangs keeps its connections open. So the client disconnects from a server that has not answered
// maxSilentPings pings, or has accepted no data for writeWithin, and connects to another server.
const (
	pingEvery      = time.Second
	maxSilentPings = 2
	writeWithin    = 2 * time.Second
)

// An embedded server has no substitute, and the kernel reports its death. If it or one of its clients on the machine is silent, the
// machine is overloaded, and a disconnect would only lose answers. So these limits are longer than a request may take.
const (
	localPingEvery   = 30 * time.Second
	localWriteWithin = 90 * time.Second
)

// DialConfig specifies the server and the user of a connection.
type DialConfig struct {
	// URL is the address of the server, or several addresses separated by commas. If it is empty, the address and the
	// credentials come from DataDir.
	URL string
	// DataDir is the data directory of a running node on this machine.
	DataDir string
	// User and Password authenticate the connection. Without a password, the password in the
	// auth.json of DataDir is used: the worker's if User is WorkerUser, otherwise the operator's.
	User     string
	Password string
	// Token is the secret of a bearer token of the node. The connection then acts with the identity of the token instead of
	// the operator's.
	Token string
	// CredsFile is a NATS credentials file, for servers that use them.
	CredsFile string
	// Worker selects the inbox prefix of workers, as the user WorkerUser does. It is for external servers, where
	// workers may have any user name.
	Worker bool
	// Lease makes the connection answer requests only while the lease is held; nil answers always.
	Lease Lease
	// Name is the name of the connection in the server's list; default "orch".
	Name string
	// Logger logs disconnects and asynchronous errors; nil discards them.
	Logger *slog.Logger
}

// Conn is a connection to a NATS server, safe for concurrent use. It reconnects by itself.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	target target
	link   *lossNotifier
	// denials are the subjects that the server does not let the connection use.
	denials *denials
	// inboxes are those of pages.
	inboxes inboxes
	// lease is the lease of the node that answers requests here; nil if none is needed.
	lease Lease
	// replicated is set if the streams are replicated on several servers. Some of these may lag behind the leader.
	replicated atomic.Bool
}

// target describes how to connect, for reconnects and further connections.
type target struct {
	config DialConfig
	// nodeDir is the data directory where each connect looks up the address of the node; empty for a fixed address.
	nodeDir     string
	server      *Server // the embedded server, if it runs in this process
	reconnected func()
}

// Dial connects to a server over the network. Errors: UNAVAILABLE if no server answers or no node runs
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

// nodeDialer looks up the address of the node in its data directory for every connection: after a restart it may
// listen on another port.
type nodeDialer string

// Dial implements nats.CustomDialer.
func (dir nodeDialer) Dial(network, address string) (net.Conn, error) {
	if info, err := readNode(string(dir)); err == nil {
		address = strings.TrimPrefix(info.URL, "nats://")
	}
	ctx, cancel := context.WithTimeout(context.Background(), localDialWithin)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// fromDataDir fills the missing address and credentials from the data directory.
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
	lost, denied := &lossNotifier{}, &denials{}
	opts := t.options(lost, denied)
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
	c := &Conn{nc: nc, js: js, target: t, link: lost, denials: denied, lease: t.config.Lease}
	if err := c.watchNodes(); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// dialTimeout returns how long one attempt to connect may take. It is shorter if there are several servers to try.
func (t *target) dialTimeout() time.Duration {
	switch {
	case t.server != nil, t.nodeDir != "":
		return localDialWithin
	case strings.Contains(t.config.URL, ","):
		return greetWithin
	default:
		return dialWithin
	}
}

// options returns the options of the NATS client. The client does not buffer messages while it is disconnected, so that
// a sender gets the error at once.
func (t *target) options(lost *lossNotifier, denied *denials) []nats.Option {
	c, log := t.config, t.config.Logger
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.Timeout(t.dialTimeout()),
		nats.SyncQueueLen(2 * pageCount), // a reader requests one page at a time; the default queue takes 0.5 MB per reader
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			lost.lost()
			log.Debug("bus disconnected", slog.String("conn", c.Name), slog.Any("error", err))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if d, is := parseDenial(err); is && !denied.note(d) {
				return
			}
			log.Warn("bus error", slog.String("conn", c.Name), slog.Any("error", err))
		}),
	}
	if t.reconnected != nil {
		opts = append(opts, nats.ReconnectHandler(func(*nats.Conn) { t.reconnected() }))
	}
	opts = append(opts, t.lossOptions()...)
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

// lossOptions returns the options that decide when the connection counts as lost.
func (t *target) lossOptions() []nats.Option {
	every, within := pingEvery, writeWithin
	switch {
	case t.server != nil:
		return []nats.Option{nats.InProcessServer(t.server)}
	case t.nodeDir != "":
		every, within = localPingEvery, localWriteWithin
	}
	return []nats.Option{
		nats.PingInterval(every), nats.MaxPingsOutstanding(maxSilentPings), nats.FlusherTimeout(within), nats.ReconnectOnFlusherError(),
	}
}

func noNode(dir string, err error) error {
	return fault.Wrap(fault.Unavailable, err, "no node runs on the data directory "+dir).WithHint("start one with: orch serve")
}

// nodeDied reports whether the node of the data directory was killed. Its published address then remains, and another
// server that refuses the credential may listen there.
func (t *target) nodeDied() bool {
	info, err := readNode(t.nodeDir)
	return t.nodeDir != "" && err == nil && errors.Is(syscall.Kill(info.PID, 0), syscall.ESRCH)
}

// NodeEnded returns UNAVAILABLE if the connection is to the node of a data directory and that node has ended, whether or not another one
// runs there by now; otherwise nil.
func (c *Conn) NodeEnded() error {
	if c.target.nodeDir == "" {
		return nil
	}
	info, err := readNode(c.target.nodeDir)
	if errors.Is(err, fs.ErrNotExist) {
		return noNode(c.target.nodeDir, err)
	}
	if err == nil && info.URL != c.target.config.URL || c.target.nodeDied() {
		return noNode(c.target.nodeDir, nil)
	}
	return nil
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

// openAppends opens a second connection to the same server, for appends. An embedded server lets no other connection write to the log.
func (c *Conn) openAppends(ctx context.Context, reconnected func()) (*Conn, error) {
	t := c.target
	t.config.Name += " appends"
	t.reconnected = reconnected
	if t.server != nil {
		t.config.User, t.config.Password = appenderUser, t.server.appends
	}
	return connect(ctx, t)
}

// External reports whether the server is not embedded in a node. Requests then go to the active node of the server.
func (c *Conn) External() bool { return c.target.server == nil && c.target.nodeDir == "" }

// maxCommit returns the maximum size of a message without headers, in bytes.
func (c *Conn) maxCommit() int {
	const headers = 4 << 10 // more than the headers of a commit or of an archive part ever need
	return int(c.nc.MaxPayload()) - headers
}

// incarnation returns the number of restarts of the embedded server in place; 0 for an external server.
func (c *Conn) incarnation() uint64 {
	if c.target.server == nil {
		return 0
	}
	return c.target.server.incarnation.Load()
}

// Close closes the connection. It is idempotent.
func (c *Conn) Close() { c.nc.Close() }

// NATS returns the underlying connection, for requests and replies.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Reconnects returns how often the connection was lost and came back, and whether it is there now.
func (c *Conn) Reconnects() (times uint64, connected bool) {
	return c.nc.Stats().Reconnects, c.nc.IsConnected()
}

// Token returns the secret of the bearer token of the connection; empty for the operator or a worker.
func (c *Conn) Token() string { return c.target.config.Token }

// OnLoss calls f at the next loss of the connection, unless stop is called first. It returns at once.
func (c *Conn) OnLoss(f func()) (stop func()) { return c.link.onLoss(f) }

// Leased reports whether the connection answers requests only while a lease is held, see DialConfig.Lease.
func (c *Conn) Leased() bool { return c.lease != nil }
