// Package embed tests package orch from a module outside of this one: the program of docs/how-to/embed-orch.md. The package
// contains only tests.
package embed
