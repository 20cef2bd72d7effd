package policy

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/internal/netguard"
)

// address is a network address in normal form: the host as netguard.Host returns it, the port without leading zeros.
// Empty fields are unspecified.
type address struct{ scheme, host, port string }

// sameEndpoint reports whether allowed, an entry of a plan, denotes the endpoint name of a target. allowed has the form
// scheme://host:port, host:port or host. A missing port is the default of the scheme.
func sameEndpoint(allowed, name string) bool {
	want, ok := parseAddress(strings.TrimSuffix(allowed, "/"))
	have, known := parseAddress(name)
	if !ok || !known {
		return allowed == name
	}
	port := cmp.Or(want.port, usualPort(have.scheme))
	return want.host == have.host && port == cmp.Or(have.port, usualPort(have.scheme)) &&
		(want.scheme == "" || want.scheme == have.scheme)
}

// sameConnection reports whether allowed, an entry of a plan, denotes the database name of a target. The paths must be
// equal.
func sameConnection(allowed, name string) bool {
	want, wantPath, ok := parseConnection(allowed)
	have, havePath, known := parseConnection(name)
	if !ok || !known {
		return allowed == name
	}
	return want == have && wantPath == havePath
}

func parseConnection(text string) (address, string, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return address{}, "", false // sqlite:/path
	}
	server, database, _ := strings.Cut(rest, "/")
	a, ok := parseAddress(scheme + "://" + server)
	switch a.scheme {
	case "postgresql":
		a.scheme = "postgres"
	case "mariadb":
		a.scheme = "mysql"
	}
	a.port = cmp.Or(a.port, usualPort(a.scheme))
	return a, database, ok && a.port != ""
}

func usualPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443", "ssh": "22", "postgres": "5432", "mysql": "3306"}[scheme]
}

// parseAddress parses scheme://host:port, where scheme and port are optional. It returns false for anything else, such
// as an address with a user or a path.
func parseAddress(text string) (address, bool) {
	a := address{host: text}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		a.scheme, a.host = strings.ToLower(scheme), rest
		if scheme == "" {
			return a, false
		}
	}
	if rest, ok := strings.CutPrefix(a.host, "["); ok {
		host, port, closed := strings.Cut(rest, "]")
		if !closed || (port != "" && port[0] != ':') || !strings.Contains(host, ":") {
			return a, false
		}
		a.host, a.port = host, strings.TrimPrefix(port, ":")
	} else if strings.Count(a.host, ":") == 1 {
		a.host, a.port, _ = strings.Cut(a.host, ":")
	}
	if a.port != "" {
		port, err := strconv.ParseUint(a.port, 10, 16)
		if err != nil || port == 0 {
			return a, false
		}
		a.port = strconv.FormatUint(port, 10)
	}
	host, err := netguard.Host(a.host)
	a.host = host
	return a, err == nil
}
