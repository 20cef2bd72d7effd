package main

import (
	"context"
	"html"
	"io"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
	"github.com/orch-dev/orch/node"
)

// uiOptions are the flags of `orch ui`.
type uiOptions struct {
	open        bool
	role, token string
}

func newUI(c *nodeCommands) *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Print a link to the page of the node that logs you in",
		Long: `Print a link to the page of the node. It logs in one browser for 12 hours. It works once, within 60 seconds; keep it
to yourself. With --open the browser of the desktop opens it, if there is one.

The browser acts as the operator, with --role as the operator with fewer rights, and with --token as whoever has that
token: with its role and its limits, until it is revoked or expires. A viewer sees everything and changes nothing.

The node must serve HTTP (the setting http), and only the credential of the operator gets a link.`,
		Example: "  orch ui --open\n  orch ui --role viewer\n  orch ui --token dashboard",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.showUI(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.open, "open", false, "open the link in the browser of the desktop")
	cmd.Flags().StringVar(&o.role, "role", "", "what the browser may do"+choices(node.LinkRoles())+" (default operator)")
	cmd.Flags().StringVar(&o.token, "token", "", "the name or the id of the token whose identity, role and limits the browser gets")
	cmd.MarkFlagsMutuallyExclusive("role", "token")
	return cmd
}

func (c *nodeCommands) showUI(ctx context.Context, o uiOptions) error {
	if o.role != "" {
		if err := oneOf("--role", o.role, node.LinkRoles()); err != nil {
			return err
		}
	}
	s, err := c.nodes.Dial(ctx, c.cfg)
	if err != nil {
		return err
	}
	var link node.Link
	err = useSession(ctx, s, func(s session) error {
		return s.Ask(ctx, node.LinkMethod, node.LinkRequest{Role: o.role, Token: o.token}, &link)
	})
	if err != nil {
		return err
	}
	opened := false
	if o.open {
		if opened, err = c.openPage(ctx, link); err != nil {
			return err
		}
	}
	if opened {
		return c.emit(view{data: map[string]string{"page": link.Page}, names: []string{link.Page}, text: func(w io.Writer) error {
			return writeLines(w, []string{"opened " + link.Page})
		}})
	}
	return c.emit(view{data: link, names: []string{link.URL}, text: func(w io.Writer) error {
		c.note("the link works once, within 60 seconds, and logs in %s with the role %s:", screen.Escape(link.Identity), link.Role)
		return writeLines(w, []string{link.URL})
	}})
}

// openPage opens a link in the browser of the desktop, and reports whether there is one.
func (c *nodeCommands) openPage(ctx context.Context, link node.Link) (bool, error) {
	file := filepath.Join(c.cfg.DataDir, "ui.html")
	if err := wholefile.Replace(file, []byte(forwardTo(link.URL)), 0o600); err != nil {
		return false, fault.Wrap(fault.Forbidden, err, "the link cannot be passed to a browser").WithHint("run orch ui, and open the link yourself")
	}
	return c.openBrowser(ctx, (&url.URL{Scheme: "file", Path: file}).String()), nil
}

// forwardTo returns a page that goes on to a link. Every user of the machine can read the arguments of a program, so the browser gets
// the link in a file.
func forwardTo(link string) string {
	return `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` +
		html.EscapeString(link) + `"><title>orch</title>` + "\n"
}
