package bus

import (
	"context"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// LocalTokenFile is the name of the file in the data directory with the secret of the token of the user who runs the node.
const LocalTokenFile = "mcp.token"

// LocalToken is the token of the user who runs a node. It has the same identity as the user's command line (S2-074).
type LocalToken struct {
	// DataDir is the data directory of the node, User the name of the operating system's user.
	DataDir, User string
}

// Ensure creates the token and its file, unless the file contains a valid token of the user with the role operator. A
// previous token is revoked.
func (l LocalToken) Ensure(ctx context.Context, t *Tokens, store TokenStore) error {
	data, err := readLocalToken(l.path())
	if err != nil && !fault.Has(err, fault.NotFound) {
		return err
	}
	if token, wrong := t.VerifyToken(data); wrong == nil && token.Name == l.User && token.Role == RoleOperator {
		return restrictFile(l.path())
	}
	_, err = l.Rotate(ctx, store)
	return err
}

// Rotate creates a new token, writes it to the file, and revokes the previous one.
func (l LocalToken) Rotate(ctx context.Context, store TokenStore) (Token, error) {
	location, err := l.location()
	if err != nil {
		return Token{}, err
	}
	token, secret, err := IssueToken(ctx, store, NewToken{
		Name: l.User, Role: RoleOperator, Actor: "user:" + l.User, Local: location,
	})
	if err != nil {
		return Token{}, err
	}
	return token, writeFile(l.path(), []byte(secret+"\n"))
}

func (l LocalToken) path() string { return filepath.Join(l.DataDir, LocalTokenFile) }

// location returns "HOST:DIRECTORY" of the node, which identifies its local token.
func (l LocalToken) location() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the name of this machine cannot be read")
	}
	return host + ":" + realPath(l.DataDir), nil
}

// readLocalToken returns the first agents.SecretLength bytes of a file. It does not check that they are a secret.
func readLocalToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be read")
	}
	defer f.Close()
	data := make([]byte, agents.SecretLength)
	n, _ := f.Read(data) // an error counts as an empty file
	return string(data[:n]), nil
}

// restrictFile denies other users access to a file.
func restrictFile(path string) error {
	if err := os.Chmod(path, 0o600); err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be closed to others")
	}
	return nil
}
