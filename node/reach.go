package node

import (
	"crypto/sha1" //nolint:gosec // see instanceOf
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/pathguard"
)

// addReach says which node it is, and what commands need to reach it: its data directory, unless it is the default one of the user, and
// the URL for other machines, if they can connect.
func (h *host) addReach(reply *api.StatusReply) {
	reply.DataDir = dataDirFor(h.cfg.DataDir)
	reply.Server = serverFor(h.Address(), h.cfg.Storage.Host, h.cfg.local())
	reply.Host, reply.Instance = instanceOf(h.cfg.DataDir)
}

// instanceOf returns the name of the machine, and the UUID of a node with a data directory there: one of version 5, in the namespace that
// the semantic conventions of OpenTelemetry have for service.instance.id.
func instanceOf(dir string) (host, id string) {
	host, err := os.Hostname()
	if err != nil {
		return "", ""
	}
	const namespace = "\x4d\x63\x00\x9a\x8d\x0f\x11\xee\xaa\xd7\x4c\x79\x6e\xd8\xe3\x20"
	sum := sha1.Sum([]byte(namespace + host + ":" + pathguard.Real(dir))) //nolint:gosec // UUIDs have no other one
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	text := hex.EncodeToString(sum[:16])
	return host, strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
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
