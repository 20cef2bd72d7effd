package config

import (
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/secret"
)

// Tools contains the operator's settings for the families of tools. The zero value is the most restrictive.
type Tools struct {
	// SearchProvider is the search service of WEB_SEARCH: searxng, brave or tavily; "" disables it. SearchURL is the
	// base URL of the service, SearchKey its credential.
	SearchProvider, SearchURL string
	SearchKey                 Secret
	// NotifyServices maps notification channels, other than log, file and nats, to URLs. NotifyChannels are the
	// channels of notifications without explicit channels, and of those from the node.
	NotifyServices map[string]Secret
	NotifyChannels []string
	// GitHubURL is the base URL of the GitHub API; "" means that of github.com. GitHubToken is its credential.
	GitHubURL   string
	GitHubToken Secret
	// S3 configures the server of buckets in which tasks are archived.
	S3 S3
	// Firebase configures the databases of the tools firebase.*.
	Firebase Firebase
	// NetAllow lists non-public hosts that tools may reach: address ranges, addresses and names, with or without a
	// port.
	NetAllow []string
	// SecretsAllow lists the sources of secrets that plans may use: env:NAME and file:PATH, with * for any characters.
	SecretsAllow []string
	// NPMRegistry and PipIndex are the URLs of package registries; "" means the default of the package manager.
	NPMRegistry, PipIndex string
	// GitConventions is the RE2 expression for the first line of a commit message; "" means Conventional Commits.
	GitConventions string
	// GitSSHCommand is the ssh command of git, GitCredentialHelper provides credentials for http, and GitRead are the
	// absolute paths that both need to read. Without GitSSHCommand there are no remotes over ssh.
	GitSSHCommand, GitCredentialHelper string
	GitRead                            []string
	// DatabaseHosts are the servers, as host:port, that a statement may use; empty means all.
	DatabaseHosts []string
}

// Secrets returns the references to secrets in the settings, by key or key.name.
func (t Tools) Secrets() map[string]Secret {
	all := map[string]Secret{}
	if t.SearchKey != "" {
		all["search_key"] = t.SearchKey
	}
	if t.GitHubToken != "" {
		all["github_token"] = t.GitHubToken
	}
	if t.Firebase.RealtimeToken != "" {
		all["firebase_realtime_token"] = t.Firebase.RealtimeToken
	}
	if t.Firebase.FirestoreCredentials != "" {
		all["firestore_credentials"] = t.Firebase.FirestoreCredentials
	}
	if t.S3.KeyID != "" {
		all["s3_key_id"] = t.S3.KeyID
	}
	if t.S3.Secret != "" {
		all["s3_secret"] = t.S3.Secret
	}
	for name, place := range t.NotifyServices {
		all["notify_services."+name] = place
	}
	return all
}

// builtInChannels are the channels that every node has.
func builtInChannels() []string { return []string{"log", "file", "nats"} }

// check checks that the settings are consistent.
func (t Tools) check() error {
	wrong := func(field, format string, args ...any) *fault.Error {
		return fault.New(fault.ValidationError, format, args...).WithField(field)
	}
	switch {
	case t.SearchProvider == "searxng" && t.SearchURL == "":
		return wrong("search_url", "searxng needs the URL of an instance").WithHint("such as http://localhost:8888")
	case t.SearchProvider != "" && t.SearchProvider != "searxng" && t.SearchKey == "":
		return wrong("search_key", "%s needs a key", t.SearchProvider).WithHint("such as env:SEARCH_KEY, or file:PATH")
	}
	if err := t.Firebase.check(); err != nil {
		return err
	}
	known := append(builtInChannels(), slices.Sorted(maps.Keys(t.NotifyServices))...)
	for _, name := range builtInChannels() {
		if t.NotifyServices[name] != "" {
			return wrong("notify_services", "every node has a channel %s; give the service another name", name)
		}
	}
	for _, name := range t.NotifyChannels {
		if !slices.Contains(known, name) {
			return wrong("notify_channels", "%q is no channel", name).WithHint("the channels are %s; notify_services adds more", strings.Join(known, ", "))
		}
	}
	return nil
}

// toolKeys are the settings of the families of tools. A project may say how its commits begin; the rest
// says what of the operator's a tool may use.
func toolKeys() []Key {
	return slices.Concat(webKeys(), githubKeys(), firebaseKeys(), notifyKeys(), gitKeys(), []Key{
		{
			Name: "secrets_allow", Node: true, Worker: true, Personal: true, check: secretSource,
			Usage: "where the secrets of plans may lie, such as env:DB_* and file:/run/secrets/*; without any no plan has secrets",
			field: func(c *Config) any { return &c.Tools.SecretsAllow },
		},
		{
			Name: "npm_registry", Node: true, Worker: true, Personal: true, check: webURL, Usage: "URL of the registry of npm and yarn instead of their own",
			field: func(c *Config) any { return &c.Tools.NPMRegistry },
		},
		{
			Name: "pip_index", Node: true, Worker: true, Personal: true, check: webURL, Usage: "URL of the package index of pip instead of its own",
			field: func(c *Config) any { return &c.Tools.PipIndex },
		},
		{
			Name: "database_hosts", Node: true, Worker: true, Personal: true, check: hostPort,
			Usage: "servers, host:port, that a call of DATABASE_QUERY may name by itself; without any all that the policy lets through",
			field: func(c *Config) any { return &c.Tools.DatabaseHosts },
		},
	})
}

func webKeys() []Key {
	return []Key{
		{
			Name: "search_provider", Choices: []string{"", "searxng", "brave", "tavily"}, Node: true, Worker: true, Personal: true,
			Usage: "where WEB_SEARCH asks; empty switches it off",
			field: func(c *Config) any { return &c.Tools.SearchProvider },
		},
		{
			Name: "search_url", Node: true, Worker: true, Personal: true, check: webURL, Usage: "base of the search service; brave and tavily have one of their own",
			field: func(c *Config) any { return &c.Tools.SearchURL },
		},
		{
			Name: "search_key", Node: true, Worker: true, Personal: true, Usage: "where the key of the search service lies: env:NAME or file:PATH",
			field: func(c *Config) any { return &c.Tools.SearchKey },
		},
		{
			Name: "net_allow", Node: true, Worker: true, Personal: true, check: allowed,
			Usage: "what HTTP tools, and git over http, may reach although it is not public: ranges, addresses, names, host:port",
			field: func(c *Config) any { return &c.Tools.NetAllow },
		},
	}
}

func githubKeys() []Key {
	return []Key{
		{
			Name: "github_url", Node: true, Worker: true, Personal: true, check: webURL,
			Usage: "base of the API of GitHub, such as https://github.example.com/api/v3; empty is that of github.com",
			field: func(c *Config) any { return &c.Tools.GitHubURL },
		},
		{
			Name: "github_token", Node: true, Worker: true, Personal: true, Usage: "where the token for GitHub lies: env:NAME or file:PATH; without it only what is public can be read",
			field: func(c *Config) any { return &c.Tools.GitHubToken },
		},
	}
}

func notifyKeys() []Key {
	return []Key{
		{
			Name: "notify_on", Default: "failed,blocked,approval", Choices: []string{"failed", "blocked", "approval", "none"}, Node: true, Personal: true,
			Usage: "what the node itself notifies of",
			field: func(c *Config) any { return &c.NotifyOn },
		},
		{
			Name: "notify_channels", Default: "log", Node: true, Worker: true, Personal: true,
			Usage: "channels of what the node notifies of, and of notifications that name none: log, file, nats and those of notify_services",
			field: func(c *Config) any { return &c.Tools.NotifyChannels },
		},
		{
			Name: "notify_services", Node: true, Worker: true, Personal: true,
			Usage: "further channels, NAME=PLACE, where PLACE is env:NAME or file:PATH of the URL of the service",
			field: func(c *Config) any { return &c.Tools.NotifyServices },
		},
	}
}

func gitKeys() []Key {
	return []Key{
		{
			Name: "git_conventions", Node: true, Worker: true, check: expression, Usage: "RE2 expression for the first line of a commit message; empty is Conventional Commits",
			field: func(c *Config) any { return &c.Tools.GitConventions },
		},
		{
			Name: "git_ssh_command", Node: true, Worker: true, Personal: true, Usage: "command that starts ssh for git; without it remotes over ssh are refused",
			field: func(c *Config) any { return &c.Tools.GitSSHCommand },
		},
		{
			Name: "git_credential_helper", Node: true, Worker: true, Personal: true, Usage: "credential helper of git for remotes over https",
			field: func(c *Config) any { return &c.Tools.GitCredentialHelper },
		},
		{
			Name: "git_read", path: true, Node: true, Worker: true, Personal: true, Usage: "files and folders that git alone may read when it talks to a remote, such as a key and known hosts",
			field: func(c *Config) any { return &c.Tools.GitRead },
		},
	}
}

// webURL returns what is wrong with the URL of a service, or "". It does not quote the URL, which may contain a
// password.
func webURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return "it must be a URL that begins with http:// or https://"
	case strings.Contains(text, "@"):
		return "it must hold neither user nor password"
	}
	return ""
}

// publicURL checks the address of a page, which has no path of its own.
func publicURL(text string) string {
	if wrong := webURL(text); wrong != "" {
		return wrong
	}
	u, err := url.Parse(text)
	if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "it must end after the host and the port"
	}
	return ""
}

func allowed(text string) string {
	if _, err := (netguard.Config{}).Allow(text); err != nil {
		return strconv.Quote(text) + " is no range, address, name or host:port"
	}
	return ""
}

// secretSource returns what is wrong with a source of secrets, without quoting it: it may be the secret itself.
func secretSource(text string) string { return secret.CheckPattern(text) }

func hostPort(text string) string {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" || text != strings.ToLower(text) {
		return strconv.Quote(text) + " is no host:port in lower case"
	}
	return ""
}

func expression(text string) string {
	if _, err := regexp.Compile(text); err != nil {
		return "it is no regular expression: " + err.Error()
	}
	return ""
}
