package bus

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/orch-dev/orch/fault"
)

// Durability is what an acknowledged append survives.
type Durability string

const (
	// Fsync is the default: an acknowledged commit is on the disk and survives a power loss.
	Fsync Durability = "fsync"
	// Relaxed survives the death of every process; a power loss may take the last 100 ms.
	Relaxed Durability = "relaxed"
	// Unknown is the level of an external server: only its operator knows when it syncs. It cannot be configured.
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
	// MaxPayload is the largest message in bytes that the embedded server accepts.
	MaxPayload = 8 << 20
	// maxFree is the upper bound of the default free-space watermark.
	maxFree = 256 << 20
	// unbounded is the limit of the store that the server gets, in bytes. At a limit of its own the server would
	// refuse marks and the archive as well, so this package enforces MaxStore itself.
	unbounded = 1 << 60
	// maxSubscriptions limits the subscriptions of a connection, so that an agent cannot fill the memory of the server. The
	// server has one limit for all connections: the node's own, with a subscription for each awaited reply,
	// need more than those of agents.
	maxSubscriptions = 32_768
	// maxMemory bounds memory streams of the embedded server; the log uses none.
	maxMemory = 64 << 20
)

// ServerConfig configures the embedded server.
type ServerConfig struct {
	// DataDir is the directory of all data of the node. It is created with mode 0700. Required.
	DataDir string
	// Guest is the command, such as "orch submit", of a temporary server, which releases the data directory when a node
	// wants it (see Wanted); empty for a server that stays.
	Guest string
	// Durability defaults to Fsync.
	Durability Durability
	// Logger gets the server's log; nil discards it.
	Logger *slog.Logger
	// ReadNewer allows opening a store that a newer orch has written, if this version can read it. Nothing is appended.
	ReadNewer bool
	// Salvage gives up the tasks of damaged records. A start does that without it if only the archive is damaged. See Salvage.
	Salvage bool
	// MaxStore is the size in bytes of all streams, before compression, from which the log refuses
	// appends; 0 means that only MinFree limits it.
	MaxStore int64
	// MinFree is the free space in bytes below which the log refuses appends; default: 2 % of the file
	// system, at most 256 MiB. The node itself keeps working below it: it archives, and writes the high-water mark.
	MinFree int64
	// Host is the address to listen on, 127.0.0.1 by default.
	Host string
	// Port is the port to listen on; 0 lets the system choose.
	Port int
	// Sync makes the data of a file durable; default fdatasync(2). Tests replace it with a slow or failing disk.
	Sync func(*os.File) error
	// SyncAlways makes the server sync every write itself, as on a file system that a group sync cannot
	// rely on. It only matters with Fsync.
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

// syncing returns how the level is reached, if the server works as expected.
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

// interval returns the value of the server's sync_interval. With a group sync the server only syncs to tidy up: it
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

// DefaultMinFree returns the default of ServerConfig.MinFree on a file system of total bytes.
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

// portIsFree returns an error for a port in use. The server itself would only log that, and wait.
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

// text returns the configuration in the format of the NATS server. Every other listener (monitoring, cluster,
// gateways, leaf nodes, WebSocket, MQTT) stays off. The authenticator decides who may connect.
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

// orAny returns the port, or -1, the server's value for "any free port", if port is 0.
func orAny(port int) int {
	if port == 0 {
		return -1
	}
	return port
}
