// Package forge is the family of tools that use GitHub (S3 rules). They share one client with one base URL, based on
// package netguard: it follows no redirects to other servers and limits the size of responses.
package forge

import (
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// Config configures the family. The zero value can read everything that is public on github.com.
type Config struct {
	// Net configures the addresses that requests may access, in addition to public addresses and the server of URL.
	Net netguard.Config
	// URL is the base URL of the API, such as https://github.example.com/api/v3. Default: https://api.github.com.
	URL string
	// Token is the credential. It is sent only to the server of URL and never shown. Writes and searches require it.
	Token string
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	a := newAPI(cfg)
	return []tools.Tool{readFile(a), searchCode(a), createIssue(a), createPR(a), getWorkflowRuns(a)}
}
