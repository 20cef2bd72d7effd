// Package upgrade goes from the previous release to this program and back on one data directory. The file previous has the commit of that
// release. The package contains only tests.
package upgrade
