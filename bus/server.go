package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/orch-dev/orch/bus/storefile"
	"github.com/orch-dev/orch/fault"
)

// readyWithin is how long a server may take to accept connections after its streams are recovered.
const readyWithin = 10 * time.Second

// Server is an embedded NATS server with JetStream on one data directory. It is safe for concurrent use.
type Server struct {
	cfg  ServerConfig
	auth credentials
	lock *os.File
	// appends is the password of appenderUser.
	appends string

	syncing Syncing
	reserve *reserve
	barrier *barrier        // what every acknowledgement waits for; nil when the server syncs by itself
	firm    *barrier        // for what older data depends on, also on a relaxed node (see settle); nil when every write is synced, or when the probe failed
	trusted storefile.Known // the blocks that the start has not read
	suspect bool            // the previous node on the directory had a disk failure
	newer   *fault.Error    // why the store is read-only: a newer orch has written it

	mu            sync.RWMutex // guards the fields below
	current       *server.Server
	authenticator *authenticator // the authenticator of current
	port          int
	closed        bool

	restartMu   sync.Mutex    // locked during a restart in place
	incarnation atomic.Uint64 // counts the restarts in place

	// agents is the list of tokens of agents and people; nil before AdmitAgents.
	agents atomic.Pointer[Tokens]
}

// StartServer locks the data directory and starts a server on it. It returns when the server is ready
// and its address is published. Errors: CONFLICT with reason DATA_DIR_IN_USE, FORBIDDEN,
// VALIDATION_ERROR, DISK_FULL, UNAVAILABLE.
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := OpenDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	lock, err := lockDataDir(cfg.DataDir, cfg.Guest)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, lock: lock, port: cfg.Port, appends: rand.Text()}
	if cfg.Locked != nil {
		err = cfg.Locked(ctx)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.From(err)
	}
	err := s.cfg.withSpace()
	if err != nil {
		return err
	}
	s.reserve = newReserve(&s.cfg)
	if err = s.reserve.update(&s.cfg); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "no space is set aside for a full disk", slog.Any("error", err))
	}
	if err = s.discardPageCache(ctx); err != nil {
		return err
	}
	if s.newer, err = checkVersion(&s.cfg); err != nil {
		return err
	}
	var known storefile.Known
	if !s.suspect && !s.cfg.Salvage {
		known = readChecked(s.cfg.DataDir)
	}
	least := s.cfg.firstVersion()
	if s.trusted, err = prepareStore(ctx, s.cfg.DataDir, known, s.cfg.Salvage, s.cfg.Logger); err != nil {
		return err
	}
	if err = makeStoreDir(s.cfg.DataDir); err != nil {
		return err
	}
	if err = writeVersion(s.cfg.DataDir, least, s.cfg.Program); err != nil {
		return err
	}
	if s.auth, err = loadCredentials(s.cfg.DataDir); err != nil {
		return err
	}
	if err = s.cfg.portIsFree(ctx); err != nil {
		return err
	}
	if err = s.startWithSyncing(ctx); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.cfg.DataDir, nodeFile), nodeInfo{URL: s.Addr(), PID: os.Getpid(), Root: s.cfg.Root, Passing: s.cfg.Passing})
}

// run starts one incarnation of the server, on the port of the previous one if there was one.
func (s *Server) run() error {
	s.mu.RLock()
	cfg := s.cfg
	cfg.Port = s.port
	s.mu.RUnlock()
	opts, err := cfg.options(s.syncing)
	if err != nil {
		return err
	}
	a := &authenticator{auth: s.auth, appends: s.appends, log: cfg.Logger, tokens: &s.agents, refused: cfg.Refused}
	opts.CustomClientAuthentication = a
	ns, err := server.NewServer(opts)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the embedded server cannot be configured")
	}
	a.server = ns
	ns.SetLoggerV2(serverLog{s.cfg.Logger}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(readyWithin) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return s.notReady(cfg)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.authenticator = ns, a
	if addr, ok := ns.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
	return nil
}

// notReady returns why the server has not become ready: DISK_FULL or UNAVAILABLE.
func (s *Server) notReady(cfg ServerConfig) error {
	if free, _, err := diskSpace(cfg.DataDir); err == nil && free < cfg.MinFree {
		return diskFull(free, cfg.MinFree)
	}
	return fault.New(fault.Unavailable, "the embedded server does not start on %s", net.JoinHostPort(cfg.Host, "…")).
		WithHint("the log names the cause; a port that is taken and a store that cannot be written are the usual ones")
}

// options parses the configuration as the NATS server does, and disables signal handling and log output, which belong to
// the program that embeds the server.
func (c *ServerConfig) options(syncing Syncing) (*server.Options, error) {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(c.text(syncing)); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the configuration of the embedded server is wrong")
	}
	opts.JetStream = true
	opts.StoreDir = filepath.Join(c.DataDir, storeDir)
	opts.NoSigs = true
	opts.NoLog = true
	opts.DisableJetStreamBanner = true
	// The server's defaults of 2 s and 10 s are too short on a loaded machine. So the server waits as long as a client does.
	opts.AuthTimeout = localDialWithin.Seconds()
	opts.WriteDeadline = localWriteWithin
	return opts, nil
}

// Addr returns the URL of the loopback listener.
func (s *Server) Addr() string {
	ns := s.running()
	if ns == nil {
		return ""
	}
	return "nats://" + ns.Addr().String()
}

func (s *Server) running() *server.Server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current
}

// InProcessConn returns one end of a pipe to the current incarnation of the server. A client calls it for each connect, so
// that it reaches the next incarnation after a restart in place.
func (s *Server) InProcessConn() (net.Conn, error) {
	ns := s.running()
	if ns == nil {
		return nil, fault.New(fault.Unavailable, "the embedded server is not running")
	}
	conn, err := ns.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newBufferedPipe(conn), nil
}

// Connect returns a connection inside the process with the operator's credential. The caller must close the connection
// before the server.
func (s *Server) Connect(ctx context.Context) (*Conn, error) {
	d := DialConfig{User: OperatorUser, Password: s.auth.Operator, Name: "node", Logger: s.cfg.Logger}
	return connect(ctx, target{server: s, config: d})
}

// Close stops the server, removes its published address and unlocks the data directory. It is idempotent.
func (s *Server) Close(ctx context.Context) error {
	s.restartMu.Lock()
	defer s.restartMu.Unlock()
	s.mu.Lock()
	ns, first := s.current, !s.closed
	s.current, s.closed = nil, true
	s.mu.Unlock()
	if !first {
		return nil
	}
	stop(ns)
	if ns != nil {
		s.listChecked(ctx)
	}
	s.firm.close()
	return errors.Join(removeFile(filepath.Join(s.cfg.DataDir, nodeFile)), unlock(s.lock))
}

// stop shuts a server down and waits for that; ns may be nil.
func stop(ns *server.Server) {
	if ns == nil {
		return
	}
	ns.Shutdown()
	ns.WaitForShutdown()
}

// DataDir returns the data directory of the server.
func (s *Server) DataDir() string { return s.cfg.DataDir }
