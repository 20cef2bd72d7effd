package bus

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/orch-dev/orch/fault"
)

// Durability says what an acknowledged append survives.
type Durability string

const (
	// Fsync is the default: an acknowledged commit is on the disk and survives a power loss.
	Fsync Durability = "fsync"
	// Relaxed survives the death of every process; a power loss may take the last 100 ms.
	Relaxed Durability = "relaxed"
	// Unknown is the level of an external server, which tells nobody but its own operator when it syncs. It cannot be asked for.
	Unknown Durability = "unknown"
)

func (d Durability) orDefault() (Durability, error) {
	switch d {
	case "":
		return Fsync, nil
	case Fsync, Relaxed:
		return d, nil
	default:
		return "", fault.New(fault.ValidationError, "%q is no durability level", string(d)).
			WithField("durability").WithHint("use %s or %s", Fsync, Relaxed)
	}
}

const (
	// MaxPayload is the largest message in bytes that a server started here takes.
	MaxPayload = 8 << 20
	// maxFree is the upper bound of the default free-space watermark.
	maxFree = 256 << 20
	// unbounded is the size of the store for the server, in bytes. At its own limit the server would refuse
	// marks and the archive as well, so the limit is kept here.
	unbounded = 1 << 60
	// maxSubscriptions bounds those of a connection, so that an agent cannot fill the memory of the server with them. The
	// server knows one bound for all: the node's own connections, with a subscription for each answer that somebody waits
	// for, need more than agents do.
	maxSubscriptions = 32_768
	// maxMemory bounds memory streams of the embedded server; the log uses none.
	maxMemory = 64 << 20
)

// ServerConfig configures the embedded server.
type ServerConfig struct {
	// DataDir is the directory of everything that the node keeps. It is made with mode 0700. Required.
	DataDir string
	// Guest is the command, such as "orch submit", of a server that gives the data directory up for one that stays, see
	// Wanted; empty for one that stays.
	Guest string
	// Durability is Fsync unless set.
	Durability Durability
	// Logger gets the server's log; nil discards it.
	Logger *slog.Logger
	// ReadNewer allows a start on a store that a newer orch has written, if it may be read by this one. Nothing is appended.
	ReadNewer bool
	// Salvage gives up tasks of which a record is damaged, as a start does by itself where only the archive is damaged. See Salvage.
	Salvage bool
	// MaxStore is the size in bytes of all streams, before compression, from which on the log refuses
	// appends; 0 leaves it to MinFree.
	MaxStore int64
	// MinFree is the free space in bytes below which the log refuses appends; default: 2 % of the file
	// system, at most 256 MiB. The node itself goes on below it: it archives, and notes how far the log went.
	MinFree int64
	// Host is the address to listen on, 127.0.0.1 unless set.
	Host string
	// Port is the port to listen on; 0 lets the system choose.
	Port int
	// Sync makes the data of a file durable; default fdatasync(2). Tests put a slow or a failing disk here.
	Sync func(*os.File) error
	// SyncAlways lets the server sync every write by itself, as on a file system that a group sync cannot
	// be trusted on. It only matters with Fsync.
	SyncAlways bool
}

func (c *ServerConfig) validate() error {
	if c.DataDir == "" {
		return fault.New(fault.RequiredField, "the data directory is not set").WithField("data_dir")
	}
	if c.Port < 0 || c.Port > 65535 {
		return fault.New(fault.ValidationError, "%d is no port", c.Port).WithField("port").
			WithHint("use 1 to 65535, or 0 to let the system choose")
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Sync == nil {
		c.Sync = fdatasync
	}
	var err error
	c.Durability, err = c.Durability.orDefault()
	return err
}

// syncing is how the level is reached, if the server works as expected.
func (c *ServerConfig) syncing() Syncing {
	switch {
	case c.Durability == Relaxed:
		return SyncInterval
	case c.SyncAlways:
		return SyncAlways
	default:
		return SyncGroup
	}
}

// interval is the server's word for when it syncs. With a group sync it only does so to tidy up: it
// compacts its blocks on the same occasion.
func (s Syncing) interval() string {
	switch s {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return RelaxedEvery.String()
	case SyncGroup, SyncExternal:
	}
	return "2m"
}

// DefaultMinFree returns the default of ServerConfig.MinFree on a file system of so many bytes.
func DefaultMinFree(total int64) int64 { return min(total/50, maxFree) }

// withSpace fills the defaults that depend on the file system of the data directory.
func (c *ServerConfig) withSpace() error {
	_, total, err := diskSpace(c.DataDir)
	if err != nil {
		return err
	}
	if c.MinFree <= 0 {
		c.MinFree = DefaultMinFree(total)
	}
	return nil
}

// portIsFree asks the system, because the server only logs that a port is taken and waits.
func (c *ServerConfig) portIsFree(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the address "+net.JoinHostPort(c.Host, strconv.Itoa(c.Port))+" cannot be listened on").
			WithField("port").WithHint("choose another port, or 0 to let the system choose")
	}
	if err := l.Close(); err != nil {
		return fault.Wrap(fault.Internal, err, "a listener cannot be closed")
	}
	return nil
}

// text is the configuration of the server in its own language. Everything that is not named here and
// could listen (monitoring, cluster, gateways, leaf nodes, WebSocket, MQTT) stays off. Who may connect says an authenticator.
func (c *ServerConfig) text(syncing Syncing) string {
	return `server_name: "orch"
host: ` + strconv.Quote(c.Host) + `
port: ` + strconv.Itoa(orAny(c.Port)) + `
max_payload: ` + strconv.Itoa(MaxPayload) + `
max_subscriptions: ` + strconv.Itoa(maxSubscriptions) + `
jetstream {
  max_memory_store: ` + strconv.Itoa(maxMemory) + `
  max_file_store: ` + strconv.Itoa(unbounded) + `
  sync_interval: ` + strconv.Quote(syncing.interval()) + `
}
`
}

// orAny returns the server's word for "any free port" when none is given.
func orAny(port int) int {
	if port == 0 {
		return -1
	}
	return port
}
