// Package web is the family of tools that use HTTP (S0 rules). They share the client of package netguard, which
// accesses only public addresses and addresses that the operator lists.
package web

import (
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// Config configures the family. The zero value permits only public addresses and disables the search.
type Config struct {
	// Net configures the addresses that requests may access in addition to public addresses, such as those of private
	// services.
	Net netguard.Config
	// Search configures WEB_SEARCH.
	Search Search
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	client := netguard.New(cfg.Net)
	return []tools.Tool{httpRequest(client), webFetch(client), webSearch(cfg)}
}

// withURLField sets the field of an error of the client to url.
func withURLField(err error) error { return fault.From(err).WithField("url") }
