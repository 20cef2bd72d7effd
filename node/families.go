package node

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/build"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/db"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/git"
	"github.com/orch-dev/orch/tools/message"
	"github.com/orch-dev/orch/tools/model"
	"github.com/orch-dev/orch/tools/notify"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/tools/system"
	"github.com/orch-dev/orch/tools/web"
)

// configure converts the settings into the configuration of the tool families. Errors name the setting. Named database
// connections are stored in the data directory, which tools cannot access.
func (h *executor) configure(c *bus.Conn) error {
	net, err := h.cfg.network()
	if err != nil {
		return err
	}
	secrets, err := h.cfg.secrets()
	if err != nil {
		return err
	}
	h.models = NewModels(h.cfg.Models, h.root, os.Getenv)
	s := h.cfg.Tools
	services := map[string]string{}
	for name := range s.NotifyServices {
		services[name] = secrets["notify_services."+name]
	}
	h.families = builtin.Config{
		Database: db.Config{Hosts: s.DatabaseHosts},
		Web:      web.Config{Net: net, Search: web.Search{Provider: web.Provider(s.SearchProvider), URL: s.SearchURL, Key: secrets["search_key"]}},
		Notify:   notify.Config{Channels: services, Default: s.NotifyChannels, Publish: publisher(c), Net: net},
		GitHub:   forge.Config{Net: net, URL: s.GitHubURL, Token: secrets["github_token"]},
		Git:      h.gitConfig(net),
		Build:    build.Config{NPMRegistry: s.NPMRegistry, PipIndex: s.PipIndex, CAFile: cmp.Or(os.Getenv("NODE_EXTRA_CA_CERTS"), os.Getenv("SSL_CERT_FILE"))},
		Agent:    agent.Config{Commands: h.cfg.Agents, Registered: h.agents, Dispatcher: h.agentDispatcher},

		System: system.Config{Node: h.system}, Onboarding: onboarding.Config{Node: h.onboarding, Agents: h.agents},
		Message: message.Config{Broker: h.cfg.broker}, Model: model.Config{Node: h.modelNode},
	}
	if h.cfg.DataDir != "" {
		h.families.Database.Connections = filepath.Join(h.cfg.DataDir, "connections")
	}
	return nil
}

func (h *executor) gitConfig(net netguard.Config) git.Config {
	s := h.cfg.Tools
	return git.Config{
		FindSecret:   h.findSecret,
		IsSecretFile: func(path string) bool { return h.policy.IsSecretFile(path) }, // the policy is loaded later
		Name:         cmp.Or(os.Getenv("GIT_AUTHOR_NAME"), os.Getenv("GIT_COMMITTER_NAME")),
		Email:        cmp.Or(os.Getenv("GIT_AUTHOR_EMAIL"), os.Getenv("GIT_COMMITTER_EMAIL")),
		Own:          ownIdentity,
		Conventions:  s.GitConventions, SSHCommand: s.GitSSHCommand, CredentialHelper: s.GitCredentialHelper, Read: s.GitRead,
		PlainHTTP: net.Lists,
	}
}

// ownIdentity returns the git identity of the user of this process. Git reads it outside the sandbox, because the sandbox hides
// the home of the user.
func ownIdentity(ctx context.Context) (name, email string) {
	get := func(key string) string {
		out, _ := exec.CommandContext(ctx, "git", "config", "--global", "--get", key).Output() // empty without git or the key
		return strings.TrimSpace(string(out))
	}
	return get("user.name"), get("user.email")
}

// network returns the network rules of tools: public addresses, and the addresses of the setting net_allow.
func (c Config) network() (netguard.Config, error) {
	var net netguard.Config
	for _, entry := range c.Tools.NetAllow {
		var err error
		if net, err = net.Allow(entry); err != nil {
			return net, fault.From(err).WithField("net_allow")
		}
	}
	return net, nil
}

// secrets reads the secrets of the settings, except those of S3: only a node needs them, when it opens an archive.
func (c Config) secrets() (map[string]string, error) {
	values := map[string]string{}
	sources := c.Tools.Secrets()
	maps.DeleteFunc(sources, func(name string, _ config.Secret) bool { return strings.HasPrefix(name, "s3_") })
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		text, err := sources[name].Read(os.Getenv)
		if err != nil {
			return nil, fault.From(err).WithField(name)
		}
		values[name] = text
	}
	return values, nil
}

// secretFiles returns the files of the secrets. Tools and the programs that they start cannot read them.
func (c Config) secretFiles() []string {
	var files []string
	for _, source := range c.Tools.Secrets() {
		if path := source.File(); path != "" {
			files = append(files, path)
		}
	}
	for _, p := range c.Models.Providers {
		files = append(files, p.SecretFiles()...)
	}
	return append(files, secret.Hide(c.Tools.SecretsAllow)...)
}

// publisher returns the function that sends notifications to the channel "nats".
func publisher(c *bus.Conn) func(context.Context, notify.Notice) error {
	return func(ctx context.Context, n notify.Notice) error {
		data, err := json.Marshal(n)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the notification has no form in JSON")
		}
		return c.Notify(ctx, n.Task, data)
	}
}
