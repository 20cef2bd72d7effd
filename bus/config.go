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
	// Relaxed survives the death of every process; a power loss may lose the commits of the last 100 ms.
	Relaxed Durability = "relaxed"
	// Unknown is the reported level of an external server, because only its operator knows when it syncs. It is not a
	// valid configuration.
	Unknown Durability = "unknown"
)

func (d Durability) orDefault() (Durability, error) {
	switch d {
	case "":
		return Fsync, nil
	case Fsync, Relaxed:
		return d, nil
	default:
		return "", fault.New(fault.ValidationError, "%q is not a durability level", string(d)).
			WithField("durability").WithHint("use %s or %s", Fsync, Relaxed)
	}
}

const (
	// MaxPayload is the largest message in bytes that the embedded server accepts.
	MaxPayload = 8 << 20
	// maxFree is the maximum of the default of ServerConfig.MinFree.
	maxFree = 256 << 20
	// unbounded is the store limit in bytes in the configuration of the server. At this limit the server would also refuse
	// high-water marks and archived histories, so this package enforces MaxStore itself.
	unbounded = 1 << 60
	// maxSubscriptions is the maximum number of subscriptions of a connection, so that an agent cannot fill the memory of
	// the server. The server has the same limit for every connection, so the limit must suffice for the node itself, which
	// has a subscription for each awaited reply.
	maxSubscriptions = 32_768
	// maxMemory is the maximum size in bytes of memory streams on the embedded server. The log uses none.
	maxMemory = 64 << 20
)

// ServerConfig configures the embedded server.
type ServerConfig struct {
	// DataDir is the directory with all data of the node. It is created with mode 0700. Required.
	DataDir string
	// Guest is the name of the command that runs the server temporarily, such as "orch submit". The command releases
	// the data directory when a node wants it (see Wanted). Guest is empty for a node.
	Guest string
	// Passing is set for a server that runs for a command that executes no calls, such as "orch list", and so for a moment.
	Passing bool
	// Program is the version of the program, which the store records.
	Program string
	// Root is the root of the tools of the node. It is published in the data directory (see RootOf).
	Root string
	// Durability defaults to Fsync.
	Durability Durability
	// Logger gets the server's log; nil discards it.
	Logger *slog.Logger
	// ReadNewer allows opening a store that a newer orch has written, if this version can read it. Nothing is appended.
	ReadNewer bool
	// Salvage removes damaged records, with their tasks, from the store (see the function Salvage). If only the archive
	// is damaged, that happens even without this option.
	Salvage bool
	// MaxStore is the maximum size in bytes of all streams, before compression. The log refuses appends from this size
	// on. 0 means no maximum except by MinFree.
	MaxStore int64
	// MinFree is the free space in bytes below which the log refuses appends; default: 2 % of the file
	// system, at most 256 MiB. With less free space the node still archives tasks and writes the high-water mark.
	MinFree int64
	// Host is the address to listen on, 127.0.0.1 by default.
	Host string
	// Port is the port to listen on; 0 lets the system choose.
	Port int
	// Sync makes the data of a file durable; default fdatasync(2). Tests replace it with a slow or failing disk.
	Sync func(*os.File) error
	// Refused, which may be nil, is called with the address of a client whose credential was refused. It must not block.
	Refused func(source string)
	// Locked is called when the data directory is locked, before its files are checked, which may take long. An error of it
	// ends the start.
	Locked func(context.Context) error
	// SyncAlways makes the server sync every write itself. StartServer chooses this anyway on a file system where a
	// group sync is not reliable. It only matters with Fsync.
	SyncAlways bool
	// restoring is set for a server to which a backup is restored.
	restoring bool
}

func (c *ServerConfig) validate() error {
	if c.DataDir == "" {
		return fault.New(fault.RequiredField, "the data directory is not set").WithField("data_dir")
	}
	if c.Port < 0 || c.Port > 65535 {
		return fault.New(fault.ValidationError, "%d is not a valid port", c.Port).WithField("port").
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

// syncing returns the way to sync for the durability level, if the server passes the test of probe.
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

// interval returns the value of the server's sync_interval. With a group sync the log does not depend on it, but the
// server compacts its blocks at the same interval.
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

// portIsFree returns UNAVAILABLE for a port in use. The server itself would only log the error, and wait.
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
port: ` + strconv.Itoa(serverPort(c.Port)) + `
max_payload: ` + strconv.Itoa(MaxPayload) + `
max_subscriptions: ` + strconv.Itoa(maxSubscriptions) + `
jetstream {
  max_memory_store: ` + strconv.Itoa(maxMemory) + `
  max_file_store: ` + strconv.Itoa(unbounded) + `
  sync_interval: ` + strconv.Quote(syncing.interval()) + `
}
`
}

// serverPort returns the port in the form of the server's configuration, where -1 means any free port.
func serverPort(port int) int {
	if port == 0 {
		return -1
	}
	return port
}
