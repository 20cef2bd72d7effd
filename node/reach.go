package node

import (
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/netguard"
)

// addReach says what commands need to reach the node: its data directory, unless it is the default one of the user, and the URL for
// other machines, if they can connect.
func (h *host) addReach(reply *api.StatusReply) {
	reply.DataDir = dataDirFor(h.cfg.DataDir)
	reply.Server = serverFor(h.Address(), h.cfg.Storage.Host, h.cfg.local())
}

// dataDirFor returns a data directory, or "" for the one that commands of the user find by themselves.
func dataDirFor(dir string) string {
	if home, err := os.UserHomeDir(); err == nil && dir == filepath.Join(home, ".orch", "data") {
		return ""
	}
	return dir
}

// serverFor returns the URL of a node for other machines, "" if it listens on loopback alone. host is where an embedded server listens.
func serverFor(address, host string, embedded bool) string {
	if !embedded {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || host == "" || netguard.IsLoopback(host) {
		return ""
	}
	u.Host = net.JoinHostPort(host, u.Port())
	return u.String()
}
