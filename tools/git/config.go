package git

import (
	"cmp"
	"context"
	"regexp"

	"github.com/orch-dev/orch/fault"
)

// Config configures the family. The zero value is the most restrictive: all content counts as secret, so nothing can be
// staged or committed.
type Config struct {
	// FindSecret returns the name of the rule that found a secret in data. Default: all data counts as secret.
	FindSecret func(data []byte) (rule string, found bool)
	// IsSecretFile reports whether a file name is typical of files with secrets. Default: every file name is.
	IsSecretFile func(path string) bool
	// Conventions is the RE2 expression that the first line of a commit message must match. Default:
	// Conventional Commits.
	Conventions string
	// Name and Email identify the committer. Default: the configuration of the repository.
	Name, Email string
	// Own returns the git identity of the user of the node, for repositories without a configured identity. Default: no
	// identity.
	Own func(context.Context) (name, email string)
	// SSHCommand is the command line that starts ssh, to which git appends host and command. Default: remotes over
	// ssh are rejected.
	SSHCommand string
	// CredentialHelper is the value of git's credential.helper for remotes over https and http. Default: none.
	CredentialHelper string
	// Read are absolute paths, besides the root, that git and its child processes may read while they access a remote
	// outside the root: the credential helper and its files, an ssh key, known hosts. Other calls cannot read them.
	Read []string
	// PlainHTTP reports whether a host may be accessed over unencrypted http. Default: no host.
	PlainHTTP func(host, port string) bool
}

// conventionalCommits matches a first line such as "fix(parser)!: read empty lines".
const conventionalCommits = `^(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\([^()]+\))?!?: \S`

func (c Config) withDefaults() Config {
	if c.FindSecret == nil {
		c.FindSecret = func([]byte) (string, bool) { return "no detection of secrets is configured", true }
	}
	if c.Own == nil {
		c.Own = func(context.Context) (string, string) { return "", "" }
	}
	if c.IsSecretFile == nil {
		c.IsSecretFile = func(string) bool { return true }
	}
	if c.PlainHTTP == nil {
		c.PlainHTTP = func(string, string) bool { return false }
	}
	c.Conventions = cmp.Or(c.Conventions, conventionalCommits)
	return c
}

// conventions compiles the configured expression.
func (c Config) conventions() (*regexp.Regexp, error) {
	re, err := regexp.Compile(c.Conventions)
	if err != nil {
		return nil, fault.Wrap(fault.ValidationError, err, "the configured form of commit messages is not a valid regular expression")
	}
	return re, nil
}
