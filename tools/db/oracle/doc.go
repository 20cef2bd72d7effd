// Package oracle tests the classification of package classify/sql against complete parsers: the parser of PostgreSQL
// itself, and for MySQL that of TiDB. They are large dependencies, so this is a separate module.
package oracle
