// Package workers tests the clients for other languages, and the worker protocol, with a real node. The package contains
// only tests.
package workers
