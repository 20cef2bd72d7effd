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

// grant has the tokens of an authorization server, and the data to renew them. It is the content of a file.
type grant struct {
	// ID identifies the login.
	ID string `json:"id"`
	// URL is the URL of the server that it is valid for; Resource is the authorization server's name for that.
	URL      string `json:"url"`
	Resource string `json:"resource"`
	Issuer   string `json:"issuer"`
	// TokenURL and RevokeURL are endpoints of the issuer; the latter may be "".
	TokenURL  string    `json:"token_endpoint"`
	RevokeURL string    `json:"revocation_endpoint,omitempty"`
	Client    client    `json:"client"`
	Scopes    []string  `json:"scopes"`
	Access    string    `json:"access_token"`
	Refresh   string    `json:"refresh_token,omitempty"`
	Expires   time.Time `json:"expires_at,omitzero"`
	// RenewAt is a little before Expires.
	RenewAt time.Time `json:"renew_at,omitzero"`
}

// matches reports whether the grant is valid for the present definition.
func (g grant) matches(s Server) bool {
	if g.URL != s.URL || g.Client.Preset != (s.ClientID != "") || s.Issuer != "" && !sameIssuer(g.Issuer, s.Issuer) {
		return false
	}
	return !g.Client.Preset || g.Client.ID == s.ClientID
}

// stale reports whether the access token has expired, or is about to.
func (g grant) stale(now time.Time) bool { return !g.RenewAt.IsZero() && !now.Before(g.RenewAt) }

// login returns the public description of the grant.
func (g grant) login(name string) Login {
	return Login{Server: name, Issuer: g.Issuer, Scopes: g.Scopes, Expires: g.Expires, Renewable: g.Refresh != ""}
}

// files stores the grants of a user, one file of mode 0600 for each server.
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

// write atomically replaces a grant. FORBIDDEN, DISK_FULL.
func (f files) write(name string, g grant) error {
	if err := f.makeDir(); err != nil {
		return f.unsaved(err)
	}
	content, err := json.MarshalIndent(g, "", "  ") //nolint:gosec // this is the one place where tokens are written
	if err != nil {
		return f.unsaved(err)
	}
	if err := wholefile.Replace(f.path(name), append(content, '\n'), 0o600); err != nil {
		return f.unsaved(err)
	}
	return nil
}

// makeDir creates the directory, and denies others access to an existing one.
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

// lock excludes other processes, and other users of the files in this process, from changing a grant until unlock is called.
// It waits until ctx ends.
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
