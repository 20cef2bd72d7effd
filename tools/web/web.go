// Package web is the family of tools that speak HTTP (seed 000). They share the client of package
// netguard: public addresses alone, and what the operator lists.
package web

import (
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// Config is what the operator decides for the family. The zero value works: public addresses alone and
// no search.
type Config struct {
	// Net says what may be reached beside public addresses, such as private services.
	Net netguard.Config
	// Search is where WEB_SEARCH asks.
	Search Search
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	client := netguard.New(cfg.Net)
	return []tools.Tool{httpRequest(client), webFetch(client), webSearch(cfg)}
}

// ofURL gives an error of the client the field that held the URL.
func ofURL(err error) error { return fault.From(err).WithField("url") }
