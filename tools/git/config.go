package git

import (
	"cmp"
	"context"
	"regexp"

	"github.com/orch-dev/orch/fault"
)

// Config is what the operator decides for the family. The zero value is the narrowest: everything counts
// as secret, so that nothing is staged or committed.
type Config struct {
	// FindSecret names the rule by which data holds a secret. Default: everything does.
	FindSecret func(data []byte) (rule string, found bool)
	// IsSecretFile reports whether the name of a file is one of files with secrets. Default: every name is.
	IsSecretFile func(path string) bool
	// Conventions is the RE2 expression that the first line of a message has to match. Default:
	// Conventional Commits.
	Conventions string
	// Name and Email say who commits. Default: what the configuration of the repository says.
	Name, Email string
	// Own says who the user of the node is to git, for repositories that do not say who commits. Default: nobody.
	Own func(context.Context) (name, email string)
	// SSHCommand is the command line that starts ssh, to which git adds host and command. Default: remotes
	// over ssh are refused.
	SSHCommand string
	// CredentialHelper is the value of git's credential.helper for remotes over https and http. Default: none.
	CredentialHelper string
	// Read are absolute paths that git and what it starts may read while it talks to a remote elsewhere, beside
	// the root: the credential helper and what it reads, a key of ssh, known hosts. Other calls cannot.
	Read []string
	// PlainHTTP reports whether a host may be reached over http, without encryption. Default: none.
	PlainHTTP func(host, port string) bool
}

// conventionalCommits is the form of a first line such as "fix(parser)!: read empty lines".
const conventionalCommits = `^(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\([^()]+\))?!?: \S`

func (c Config) withDefaults() Config {
	if c.FindSecret == nil {
		c.FindSecret = func([]byte) (string, bool) { return "nothing is configured to look for secrets", true }
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
		return nil, fault.Wrap(fault.ValidationError, err, "the configured form of commit messages is no regular expression")
	}
	return re, nil
}
