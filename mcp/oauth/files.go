package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
)

// grant contains the tokens of a login, and the data to renew them. It is the content of a file.
type grant struct {
	// ID identifies the login.
	ID string `json:"id"`
	// URL is the URL of the MCP server that the grant is valid for, Resource its resource identifier (RFC 8707).
	URL      string `json:"url"`
	Resource string `json:"resource"`
	Issuer   string `json:"issuer"`
	// TokenURL and RevokeURL are endpoints of the issuer; RevokeURL may be "".
	TokenURL  string    `json:"token_endpoint"`
	RevokeURL string    `json:"revocation_endpoint,omitempty"`
	Client    client    `json:"client"`
	Scopes    []string  `json:"scopes"`
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitempty"`
	Expires   time.Time `json:"expires_at,omitzero"`
	// RenewAt is when to renew the access token, shortly before Expires; zero if Expires is unknown.
	RenewAt time.Time `json:"renew_at,omitzero"`
}

// matches reports whether the grant is valid for the definition of a server.
func (g grant) matches(s Server) bool {
	if g.URL != s.URL || g.Client.Preset != (s.ClientID != "") || s.Issuer != "" && !sameIssuer(g.Issuer, s.Issuer) {
		return false
	}
	return !g.Client.Preset || g.Client.ID == s.ClientID
}

// stale reports whether the access token has expired or is about to expire.
func (g grant) stale(now time.Time) bool { return !g.RenewAt.IsZero() && !now.Before(g.RenewAt) }

// login returns the public description of the grant.
func (g grant) login(name string) Login {
	return Login{Server: name, Issuer: g.Issuer, Scopes: g.Scopes, Expires: g.Expires, Renewable: g.Refresh != ""}
}

// files stores the grants of a user, with one file of mode 0600 for each server.
type files struct{ dir string }

func (f files) path(name string) string { return filepath.Join(f.dir, name+".json") }

// read returns a grant. The error matches fs.ErrNotExist if there is none.
func (f files) read(name string) (grant, error) {
	if !validName(name) {
		return grant{}, fs.ErrNotExist
	}
	content, err := os.ReadFile(f.path(name))
	if err != nil {
		return grant{}, err
	}
	var g grant
	if json.Unmarshal(content, &g) != nil || g.ID == "" { // the cause might quote the content
		return grant{}, errors.New("the file of the login is damaged")
	}
	return g, nil
}

// write atomically replaces a grant. It returns FORBIDDEN or DISK_FULL if the grant cannot be written.
func (f files) write(name string, g grant) error {
	if err := f.makeDir(); err != nil {
		return f.unsaved(err)
	}
	content, err := json.MarshalIndent(g, "", "  ") //nolint:gosec // the tokens must be stored
	if err != nil {
		return f.unsaved(err)
	}
	if err := wholefile.Replace(f.path(name), append(content, '\n'), 0o600); err != nil {
		return f.unsaved(err)
	}
	return nil
}

// makeDir creates the directory, or sets the mode of an existing one to 0700.
func (f files) makeDir() error {
	const private = 0o700
	if err := os.MkdirAll(f.dir, private); err != nil {
		return err
	}
	info, err := os.Stat(f.dir)
	if err != nil || info.Mode().Perm() == private {
		return err
	}
	return os.Chmod(f.dir, private)
}

func (f files) unsaved(err error) error {
	return fault.Wrap(fault.CodeOf(err), err, "the login cannot be kept").WithField(f.dir)
}

// lock locks a grant against changes, by this process and by other processes, until unlock is called. It waits for the lock until
// ctx ends.
func (f files) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := f.makeDir(); err != nil {
		return nil, f.unsaved(err)
	}
	unlock, err = wholefile.Lock(ctx, filepath.Join(f.dir, "."+name+".lock"))
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, fault.From(ctx.Err())
	case err != nil:
		return nil, f.unsaved(err)
	}
	return unlock, nil
}
