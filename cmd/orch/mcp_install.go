package main

import (
	"cmp"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/patch"
	"github.com/orch-dev/orch/mcp/clients"
	"github.com/orch-dev/orch/mcp/server"
)

// installOptions are the flags of `orch mcp install` and `orch mcp uninstall`.
type installOptions struct {
	client, name    string
	user, project   bool
	yes, dryRun     bool
	http, readsOnly bool
	tools           []string
	profile         string
	writes          string
	// noCheck skips checkEntry.
	noCheck bool
}

func newMCPInstall(c *mcpClientCommands) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install --client CLIENT",
		Short: "Tell an MCP client how to reach orch",
		Long: `Write orch into the configuration of an MCP client. It shows what it would change, asks, keeps the former file
beside the new one, and touches nothing else in it. A second time there is nothing to change. Before it writes, it starts
what the client will start, with the few variables that clients pass on, and lists the tools; what does not work is not written.

The client starts "orch mcp serve" with the root and the data directory of now, or with --http speaks to the node
that orch serve runs. No secret is written: over HTTP the client takes the token from the variable ORCH_TOKEN, or asks for it.`,
		Example: "  orch mcp install --client claude-code --root ~/project\n  orch mcp install --client cursor --project --http --dry-run",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.installMCP(cmd.Context(), o) },
	}
	o.addTo(cmd)
	cmd.Flags().BoolVar(&o.http, "http", false, "reach the node of orch serve instead of starting orch")
	cmd.Flags().BoolVar(&o.noCheck, "no-check", false, "do not start what the client will start")
	cmd.Flags().StringSliceVar(&o.tools, "tools", nil, "show only tools with these names or globs")
	cmd.Flags().BoolVar(&o.readsOnly, "only-read", false, "show only tools that change nothing")
	cmd.Flags().StringVar(&o.profile, "profile", "", "which tools the client sees, and in which words: "+strings.Join(server.Profiles(), ", ")+" (default coding, with --tools all)")
	cmd.Flags().StringVar(&o.writes, "writes", "", "how sessions write in the root: ask, session or allow; by default what the settings say")
	return cmd
}

func newMCPUninstall(c *mcpClientCommands) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:     "uninstall --client CLIENT",
		Short:   "Take orch out of the configuration of an MCP client",
		Example: "  orch mcp uninstall --client claude-code",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.uninstallMCP(cmd.Context(), o) },
	}
	o.addTo(cmd)
	return cmd
}

// addTo adds the flags of both commands.
func (o *installOptions) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.client, "client", "", "the client"+choices(clients.IDs()))
	f.StringVar(&o.name, "name", "orch", "name of the server in the client")
	f.BoolVar(&o.user, "user", false, "the file of the user, for all projects (default)")
	f.BoolVar(&o.project, "project", false, "the file of the project in --root")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show the change")
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(clients.IDs(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// configuration is the configuration file of a client.
type configuration struct {
	client  clients.Client
	file    string
	content []byte
	// check is set if checkEntry must succeed before the file is written.
	check bool
}

// openConfiguration finds and reads the configuration file of the selected client.
func (c *mcpClientCommands) openConfiguration(o installOptions) (configuration, error) {
	if o.client == "" {
		return configuration{}, fault.New(fault.RequiredField, "is missing").WithField("--client").WithHint("one of %s", strings.Join(clients.IDs(), ", "))
	}
	if err := oneOf("--client", o.client, clients.IDs()); err != nil {
		return configuration{}, err
	}
	if o.user && o.project {
		return configuration{}, fault.New(fault.InvalidParams, "--user and --project exclude each other")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(o.name) {
		return configuration{}, fault.New(fault.ValidationError, "must have 1 to 64 letters, digits, _ or -").WithField("--name")
	}
	client, err := clients.Find(o.client)
	if err != nil {
		return configuration{}, err
	}
	file, err := client.File(clients.Place{OS: runtime.GOOS, Home: c.home, Project: c.cfg.Root, Getenv: c.getenv, InProject: o.project})
	if err != nil {
		return configuration{}, err
	}
	content, err := clients.Read(file)
	return configuration{client: client, file: file, content: content}, err
}

func (c *mcpClientCommands) installMCP(ctx context.Context, o installOptions) error {
	config, err := c.openConfiguration(o)
	if err != nil {
		return err
	}
	entry, err := c.mcpEntry(o)
	if err != nil {
		return err
	}
	after, err := config.client.Install(config.file, config.content, entry)
	if err != nil {
		return err
	}
	config.check = !o.http && !o.noCheck && !o.dryRun
	var next []string
	if o.http {
		next = append(next, "keep a node running: orch serve", c.tokenFor(config.client))
	}
	if o.project && !o.http {
		next = append(next, "the file has paths of this machine; think of that before you commit it")
	}
	return c.changeConfiguration(ctx, config, after, o, append(next, config.client.Reload))
}

// tokenFor describes how to give the token of this user to the client.
func (c *mcpClientCommands) tokenFor(client clients.Client) string {
	file := filepath.Join(c.cfg.DataDir, "mcp.token")
	if client.AsksForToken() {
		return client.Title + " asks for the token once; it is in " + file
	}
	return "give " + client.Title + " the token: export " + clients.TokenVariable + `="$(cat '` + file + `')"`
}

func (c *mcpClientCommands) uninstallMCP(ctx context.Context, o installOptions) error {
	config, err := c.openConfiguration(o)
	if err != nil {
		return err
	}
	after, err := config.client.Uninstall(config.file, config.content, o.name)
	if err != nil {
		return err
	}
	return c.changeConfiguration(ctx, config, after, o, []string{config.client.Reload})
}

// mcpEntry returns the entry for this program in the configuration of the client.
func (c *mcpClientCommands) mcpEntry(o installOptions) (clients.Entry, error) {
	e := clients.Entry{Name: o.name}
	if o.profile == "" && len(o.tools) > 0 {
		o.profile = server.ProfileAll
	}
	o.profile = cmp.Or(o.profile, server.ProfileCoding)
	if err := server.CheckProfile(o.profile); err != nil {
		return e, fault.From(err).WithField("--profile")
	}
	if o.http {
		if len(o.tools) > 0 || o.readsOnly {
			return e, fault.New(fault.InvalidParams, "over HTTP the token says which tools there are").WithField("--tools").
				WithHint("make one: orch token create NAME --tools … --read-only")
		}
		if o.writes != "" {
			return e, fault.New(fault.InvalidParams, "over HTTP the node says how sessions write in the root").WithField("--writes").
				WithHint("start it with: orch serve --writes %s", o.writes)
		}
		url, err := faceURL(c.cfg.MCP.HTTP)
		e.URL = url + o.query()
		return e, err
	}
	if err := oneOf("--writes", cmp.Or(o.writes, "ask"), []string{"ask", "session", "allow"}); err != nil {
		return e, err
	}
	if info, err := os.Stat(c.cfg.Root); err != nil || !info.IsDir() {
		return e, fault.New(fault.NotFound, "there is no such directory").WithField("--root")
	}
	if strings.HasPrefix(c.exe, filepath.Join(os.TempDir(), "go-build")) || !filepath.IsAbs(c.exe) {
		return e, fault.New(fault.InvalidParams, "this program is gone when it ends: %s", cmp.Or(c.exe, "unknown")).
			WithHint("build it first: go build -o bin/orch ./cmd/orch")
	}
	e.Command = c.exe
	e.Args = []string{"mcp", "serve", "--root", c.cfg.Root, "--data-dir", c.cfg.DataDir}
	if len(o.tools) > 0 {
		e.Args = append(e.Args, "--tools", strings.Join(o.tools, ","))
	}
	if o.readsOnly {
		e.Args = append(e.Args, "--only-read")
	}
	if o.profile == server.ProfileAll {
		e.Args = append(e.Args, "--portable-names") // some clients refuse all tools if a name contains a dot
	} else {
		e.Args = append(e.Args, "--profile", o.profile)
	}
	if o.writes != "" {
		e.Args = append(e.Args, "--writes", o.writes)
	}
	return e, nil
}

// query returns the URL query that selects the profile.
func (o installOptions) query() string {
	if o.profile == server.ProfileAll {
		return ""
	}
	return "?profile=" + o.profile
}

// faceURL returns the URL of the MCP endpoint for clients on this machine. setting is the value of the setting http.
func faceURL(setting string) (string, error) {
	address, _ := faceAddress(setting)
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return "", fault.New(fault.ValidationError, "no client can find a node at %q", setting).WithField("http").
			WithHint("choose an address, such as %s", defaultFace)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/mcp", nil
}

// configChange is the result of changing a configuration.
type configChange struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dry_run,omitempty"`
	Backup  string `json:"backup,omitempty"`
	Diff    string `json:"diff,omitempty"`
	// Check is the result of checkEntry; nil without a check.
	Check *entryCheck `json:"check,omitempty"`
	// Next lists the remaining steps for the user, in order.
	Next []string `json:"next,omitempty"`
}

// changeConfiguration shows the change of a configuration, asks for confirmation, and writes it. next lists the remaining steps
// for the user.
func (c *mcpClientCommands) changeConfiguration(ctx context.Context, config configuration, after []byte, o installOptions, next []string) error {
	done := configChange{Client: config.client.ID, File: config.file, DryRun: o.dryRun, Diff: patch.Between(config.file, config.content, after)}
	shown := true
	if done.Diff != "" && !o.dryRun && !o.yes {
		if err := c.confirm(ctx, done.Diff, "Write this?", "see the change with --dry-run"); err != nil {
			return err
		}
		shown = false
	}
	var err error
	if done.Check, err = c.checkEntry(ctx, config, after, o.name); err != nil {
		return err
	}
	if done.Diff != "" && !o.dryRun {
		if done.Backup, err = config.write(after, c.now()); err != nil {
			return err
		}
		done.Changed, done.Next = true, next
	}
	return c.emit(view{data: done, names: []string{config.file}, text: func(w io.Writer) error {
		var lines []string
		if shown && done.Diff != "" {
			lines = append(lines, screen.EscapeLines(strings.TrimSuffix(done.Diff, "\n")))
		}
		return writeLines(w, append(lines, done.lines()...))
	}})
}

// lines describes the result of the change.
func (c configChange) lines() []string {
	var lines []string
	switch {
	case c.Diff == "":
		lines = append(lines, "nothing to change in "+c.File)
	case c.DryRun:
		lines = append(lines, "nothing was written (--dry-run)")
	default:
		lines = append(lines, "written: "+c.File)
	}
	if c.Backup != "" {
		lines = append(lines, "before:  "+c.Backup)
	}
	if c.Check != nil {
		lines = append(lines, "works:   "+c.Check.String())
	}
	for _, n := range c.Next {
		lines = append(lines, "next:    "+n)
	}
	return lines
}
