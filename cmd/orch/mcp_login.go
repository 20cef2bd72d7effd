package main

import (
	"context"
	"io"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/mcp/oauth"
	"github.com/orch-dev/orch/node"
)

// newMCPLogins returns the commands to log in to external MCP servers, and to log out.
func newMCPLogins(c *mcpServerCommands) []*cobra.Command {
	all := []*cobra.Command{newMCPLogin(c), newMCPLogout(c)}
	for _, cmd := range all {
		cmd.Flags().BoolVar(&c.defined.project, "project", false, "also the servers of ./.orch/mcp, whose addresses the project names")
	}
	return all
}

func newMCPLogin(c *mcpServerCommands) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to an MCP server that demands it",
		Long: `Log in to an MCP server that demands it: the browser opens at the authorization server that the MCP server names, and
comes back to this machine with the answer, for which the command waits 5 minutes. The login is kept in
~/.orch/state/mcp-oauth, for this user alone, and renewed without a person for as long as the server allows it.`,
		Example: "  orch mcp login notes",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.loginServer(cmd.Context(), args[0], noBrowser) },

		ValidArgsFunction: c.completeServers,
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address to open")
	return cmd
}

func (c *mcpServerCommands) loginServer(ctx context.Context, name string, noBrowser bool) error {
	r, err := c.defined.newServers()
	if err != nil {
		return err
	}
	var login oauth.Login
	err = c.onFiles(ctx, node.NewFileAct("mcp.login", name, nil), func() (err error) {
		login, err = r.Login(ctx, name, func(address string) {
			c.note("log in at %s", screen.Escape(address))
			if !noBrowser {
				c.openBrowser(ctx, address)
			}
		})
		return err
	})
	if err != nil {
		return err
	}
	return c.emit(view{data: login, names: []string{login.Server}, text: func(w io.Writer) error {
		return writeLines(w, []string{loginLine(login)})
	}})
}

func loginLine(l oauth.Login) string {
	line := "logged in to " + l.Server + " by " + screen.Escape(l.Issuer)
	if !l.Renewable && !l.Expires.IsZero() {
		line += ", until " + l.Expires.Local().Format("2006-01-02 15:04")
	}
	return line
}

// openBrowser opens an http, https or file URL in the browser of the desktop, and reports whether there is one.
func (e *env) openBrowser(ctx context.Context, address string) bool {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case e.getenv("DISPLAY") == "" && e.getenv("WAYLAND_DISPLAY") == "":
		return false // the command would start a browser inside this terminal
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, address) // the window stays open after the command has ended
	if err := cmd.Start(); err != nil {
		e.note("no browser could be opened: open the address yourself")
		return false
	}
	go func() { _ = cmd.Wait() }() // the exit status of the browser does not matter
	return true
}

func newMCPLogout(c *mcpServerCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "logout NAME",
		Short:   "Forget the login at an MCP server, here and where the server allows it there too",
		Example: "  orch mcp logout notes",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.logoutServer(cmd.Context(), args[0]) },

		ValidArgsFunction: c.completeServers,
	}
}

// logoutJSON is the result of a logout.
type logoutJSON struct {
	Server string `json:"server"`
	// Revoked reports whether the authorization server has revoked the tokens.
	Revoked bool `json:"revoked"`
}

func (c *mcpServerCommands) logoutServer(ctx context.Context, name string) error {
	r, err := c.defined.newServers()
	if err != nil {
		return err
	}
	var revoked bool
	err = c.onFiles(ctx, node.NewFileAct("mcp.logout", name, nil), func() (err error) {
		revoked, err = r.Logout(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	line := "logged out of " + name
	if !revoked {
		line += "; the authorization server was not told, or did not agree: what it gave is good until it ends there"
	}
	return c.emit(view{data: logoutJSON{name, revoked}, names: []string{name}, text: func(w io.Writer) error {
		return writeLines(w, []string{line})
	}})
}
