package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// tokenCommands are the commands about bearer tokens.
type tokenCommands struct {
	*connector
}

func newToken(c *tokenCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of MCP clients",
		Long: `Make, list and revoke the bearer tokens with which MCP clients speak to the node over HTTP. Only the credential
of the operator may do this. The node keeps the digest of a token and never its secret.`,
		Example: "  orch token create builder --role agent",
	}
	asGroup(cmd)
	cmd.AddCommand(newTokenCreate(c), newTokenList(c), newTokenRevoke(c), newTokenRotate(c))
	return cmd
}

// tokenOptions are the flags of `orch token create`.
type tokenOptions struct {
	role     string
	expires  string
	tools    []string
	readOnly bool
}

func newTokenCreate(c *tokenCommands) *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and show its secret, once",
		Long: `Make a token and show its secret, which nobody can show again.

  operator   sees all tasks, submits, cancels and decides about approvals
  submitter  sees its own tasks, submits, and decides about approvals that its client asks for
  agent      sees its own tasks and submits; it never decides about an approval
  viewer     sees all tasks and changes nothing

An agent is agent:NAME in the log, everybody else user:NAME. Tasks belong to that identity: who gets another token
of the same name goes on with them.`,
		Example: "  orch token create builder --role agent\n  orch token create dashboard --role viewer --expires never",
		Args:    takes("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.createToken(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.role, "role", "", "what it may do"+choices(bus.TokenRoles()))
	cmd.Flags().StringVar(&o.expires, "expires", "", "when it ends, such as 12h or 90d, or never (default 24h for an agent, 90d for others)")
	cmd.Flags().StringSliceVar(&o.tools, "tools", nil, "show only tools with these names or globs")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "show only tools that change nothing")
	return cmd
}

// The default lifetimes of tokens.
const (
	agentLife  = 24 * time.Hour
	personLife = 90 * 24 * time.Hour
)

// lifetime returns how long a token is valid, 0 for no limit.
func (o tokenOptions) lifetime() (time.Duration, error) {
	switch {
	case o.expires == "" && o.role == bus.RoleAgent:
		return agentLife, nil
	case o.expires == "":
		return personLife, nil
	case o.expires == "never":
		return 0, nil
	}
	d, err := parseSpan(o.expires)
	if err != nil || d <= 0 {
		return 0, fault.New(fault.InvalidFormat, "%q is not a valid lifetime of a token", o.expires).WithField("--expires").
			WithHint("write it as 12h, 90d or never")
	}
	return d, nil
}

// issuedToken is a token with its secret.
type issuedToken struct {
	bus.Token

	Secret string `json:"secret"`
}

func (c *tokenCommands) createToken(ctx context.Context, name string, o tokenOptions) error {
	if err := oneOf("--role", o.role, bus.TokenRoles()); err != nil {
		return err
	}
	life, err := o.lifetime()
	if err != nil {
		return err
	}
	in := bus.NewToken{Name: name, Role: o.role, Life: life, Tools: o.tools, ReadOnly: o.readOnly}
	return c.nodes.Tokens(ctx, c.cfg, func(store bus.TokenStore) error {
		token, secret, err := bus.IssueToken(ctx, store, in)
		if err != nil {
			return err
		}
		return c.emit(view{data: issuedToken{token, secret}, names: []string{secret}, text: func(w io.Writer) error {
			c.note("%s of role %s, %s; its secret is shown only now:", token.ID, token.Role, c.expiryText(token))
			return writeLines(w, []string{secret})
		}})
	})
}

// expiryText returns a text about when a token expires.
func (c *tokenCommands) expiryText(t bus.Token) string {
	switch {
	case t.ExpiresAt.IsZero():
		return "never expires"
	case t.Expired(c.now()):
		return "expired"
	default:
		return "expires " + dueText(c.now(), t.ExpiresAt)
	}
}

func newTokenList(c *tokenCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, without their secrets",
		Example: "  orch token list -o json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listTokens(cmd.Context()) },
	}
}

func (c *tokenCommands) listTokens(ctx context.Context) error {
	return c.nodes.Tokens(ctx, c.cfg, func(store bus.TokenStore) error {
		list, err := store.ListTokens(ctx)
		if err != nil {
			return err
		}
		var names []string
		for _, t := range list {
			names = append(names, t.ID)
		}
		return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
			if len(list) == 0 {
				return writeLines(w, []string{"there are no tokens"})
			}
			var table screen.Table
			table.Row("TOKEN", "NAME", "ROLE", "ENDS", "TOOLS", "MADE BY")
			for _, t := range list {
				table.Row(t.ID, t.Name, t.Role, c.expiryText(t), shownTools(t), creatorText(t))
			}
			return table.Write(w, c.width())
		}})
	})
}

// shownTools returns a text about the tools that the holder of a token sees.
func shownTools(t bus.Token) string {
	text := strings.Join(t.Tools, ",")
	if t.ReadOnly {
		text = strings.TrimPrefix(text+" read-only", " ")
	}
	if text == "" {
		return "all"
	}
	return text
}

// creatorText returns a text about the identity or the node that created a token.
func creatorText(t bus.Token) string {
	if t.Local != "" {
		return t.Local
	}
	return t.CreatedBy
}

func newTokenRevoke(c *tokenCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "Refuse a token from now on",
		Long: `Refuse a token from now on. Tasks that were submitted with it go on; cancel them if that is what you want.
The token of a node's own user is revoked by its id alone, and made anew by the next start of that node.`,
		Example: "  orch token revoke builder",
		Args:    takes("ID|NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.revokeToken(cmd.Context(), args[0]) },
	}
}

func (c *tokenCommands) revokeToken(ctx context.Context, text string) error {
	return c.nodes.Tokens(ctx, c.cfg, func(store bus.TokenStore) error {
		t, err := store.RevokeToken(ctx, bus.RevokeToken{Token: text})
		if err != nil {
			return err
		}
		return c.emit(view{data: t, names: []string{t.ID}, text: func(w io.Writer) error {
			return writeLines(w, []string{t.ID + " (" + screen.Escape(t.Name) + ") is revoked"})
		}})
	})
}

func newTokenRotate(c *tokenCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-local",
		Short: "Replace the token of the node's own user",
		Long: `Replace the token that the first start of the node wrote into its data directory, in the file ` + bus.LocalTokenFile + `.
The one before is refused from now on.`,
		Example: "  orch token rotate-local",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.rotateToken(cmd.Context()) },
	}
}

func (c *tokenCommands) rotateToken(ctx context.Context) error {
	if c.cfg.Server != "" {
		return fault.New(fault.InvalidParams, "the node keeps this token where it runs").WithField("--server").
			WithHint("rotate it there")
	}
	return c.nodes.Tokens(ctx, c.cfg, func(store bus.TokenStore) error {
		t, err := bus.LocalToken{DataDir: c.cfg.DataDir, User: strings.TrimPrefix(bus.OwnerOf(c.cfg.DataDir), "user:")}.Rotate(ctx, store)
		if err != nil {
			return err
		}
		path := filepath.Join(c.cfg.DataDir, bus.LocalTokenFile)
		return c.emit(view{data: t, names: []string{t.ID}, text: func(w io.Writer) error {
			return writeLines(w, []string{"a new token of " + screen.Escape(t.Name) + " is in " + path})
		}})
	})
}
