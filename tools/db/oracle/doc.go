// Package oracle holds the classes of package classify/sql against parsers that know the whole language: that
// of PostgreSQL itself, and that of TiDB for MySQL. They are large, so this is a module of its own.
package oracle
