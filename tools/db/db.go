// Package db is the family of tools for databases (seed 000): PostgreSQL, MySQL with MariaDB, and SQLite.
//
// Package classify/sql says what a statement would do, and package policy decides whether it may. What it
// counts as then holds in the engine too: a read runs in a session that cannot write, whatever functions
// and views do behind its back, and is rolled back. Every call has a connection of its own, so that
// nothing of one call is left for the next.
package db

import "github.com/orch-dev/orch/tools"

// The limits of one result, when Config sets none.
const (
	// DefaultMaxRows is the largest number of rows.
	DefaultMaxRows = 10_000
	// DefaultMaxBytes bounds the rows as JSON, in bytes.
	DefaultMaxBytes = 1 << 20
)

// Config configures the family. The zero value works: it knows no named connections.
type Config struct {
	// Connections is a directory with one file for each named connection: the file orders holds the URL,
	// with user and password, that secret://orders stands for. It should lie in the data directory of
	// the node, which is closed to tools. Default: there are none.
	Connections string
	// Hosts are the servers, host:port in lower case, that a call may name by itself. Named connections
	// may lead anywhere. Default, when nil: every server that the policy lets through.
	Hosts []string
	// MaxRows and MaxBytes bound the rows of a result. Default: DefaultMaxRows, DefaultMaxBytes.
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

// Tools returns the family.
func Tools(cfg Config) []tools.Tool { return []tools.Tool{databaseQuery(cfg.withDefaults())} }
