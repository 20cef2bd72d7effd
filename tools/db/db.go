// Package db is the family of tools for databases (S0 rules): PostgreSQL, MySQL with MariaDB, and SQLite.
//
// Package classify/sql determines the class of a statement, and package policy decides whether the statement may run.
// The engine enforces the class, too: a read runs in a session that cannot write, even through functions and views, and
// is rolled back. Every call opens a new connection, so that no session state is shared between calls.
package db

import "github.com/orch-dev/orch/tools"

// The default limits of one result.
const (
	// DefaultMaxRows is the maximum number of rows.
	DefaultMaxRows = 10_000
	// DefaultMaxBytes is the maximum size of the rows as JSON, in bytes.
	DefaultMaxBytes = 1 << 20
)

// Config configures the family. The zero value has no named connections.
type Config struct {
	// Connections is a directory with one file for each named connection. The file orders, for example, contains the
	// URL of secret://orders, with user and password. The directory should be in the data directory of the node, which
	// tools cannot access. Default: no named connections.
	Connections string
	// Hosts are the servers, host:port in lower case, to which a URL in a call may connect. Named connections may use
	// any server. Default, when nil: every server that the policy permits.
	Hosts []string
	// MaxRows and MaxBytes limit the rows of a result. Default: DefaultMaxRows, DefaultMaxBytes.
	MaxRows, MaxBytes int
}

func (cfg Config) withDefaults() Config {
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	return cfg
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool { return []tools.Tool{databaseQuery(cfg.withDefaults())} }
