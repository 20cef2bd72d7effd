// Package oracle tests the classes of package classify/sql against complete parsers: that of PostgreSQL itself, and
// that of TiDB for MySQL. They are large dependencies, so this is a separate module.
package oracle
