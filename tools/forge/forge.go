// Package forge is the family of tools that speak to GitHub (seed 003). They share one client of one base URL, and
// that of package netguard below it: redirects to other servers are not followed, answers are bounded.
package forge

import (
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// Config is what the operator decides for the family. The zero value works: what is public on github.com can be read.
type Config struct {
	// Net says what may be reached beside public addresses. The server of URL always may.
	Net netguard.Config
	// URL is the base of the API, such as https://github.example.com/api/v3. Default: https://api.github.com.
	URL string
	// Token is the credential. It is sent to the server of URL alone and shown nowhere. Without one there are no
	// writes and no searches.
	Token string
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	a := newAPI(cfg)
	return []tools.Tool{readFile(a), searchCode(a), createIssue(a), createPR(a), getWorkflowRuns(a)}
}
