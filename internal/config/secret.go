package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// maxSecret bounds the file of a secret, in bytes.
const maxSecret = 4096

// Secret is a reference to a secret: env:NAME is an environment variable, file:PATH a file that only its owner may
// read. It is not the secret itself, so it may be shown. The empty Secret means none.
type Secret string

// Read returns the secret, without white space around it; "" for the empty Secret. Its errors never contain the secret,
// and have no field: VALIDATION_ERROR for a variable that is not set, a file that is open to others, empty or too
// large; NOT_FOUND and FORBIDDEN for a file that cannot be read.
func (s Secret) Read(getenv func(string) string) (string, error) {
	var text string
	if name, ok := strings.CutPrefix(string(s), envScheme); ok {
		text = strings.TrimSpace(getenv(name))
		if text == "" {
			return "", fault.New(fault.ValidationError, "the variable %s is not set", name)
		}
	}
	if path := s.File(); path != "" {
		return readSecret(path)
	}
	return text, nil
}

// File returns the absolute path of the file of the secret, or "" if it is not in a file.
func (s Secret) File() string {
	path, ok := strings.CutPrefix(string(s), fileScheme)
	if !ok {
		return ""
	}
	return path
}

const (
	envScheme  = "env:"
	fileScheme = "file:"
)

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.NotFound, "there is no file %s", path)
	case err != nil:
		return "", fault.New(fault.Forbidden, "cannot read %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fault.New(fault.Forbidden, "cannot read %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", fault.New(fault.ValidationError, "%s is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fault.New(fault.ValidationError, "%s is open to others (mode %o)", path, info.Mode().Perm()).WithHint("chmod 600 %s", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", fault.New(fault.Forbidden, "cannot read %s: %w", path, err)
	case len(data) > maxSecret:
		return "", fault.New(fault.ValidationError, "%s has more than %d bytes", path, maxSecret)
	case text == "":
		return "", fault.New(fault.ValidationError, "%s is empty", path)
	}
	return text, nil
}

// secret parses a reference to a secret. An invalid reference may be the secret itself, so no error contains it.
func (p place) secret(text string) (Secret, error) {
	if path, ok := strings.CutPrefix(text, fileScheme); ok && path != "" {
		path, err := p.resolve(path)
		return Secret(fileScheme + path), err
	}
	name, ok := strings.CutPrefix(text, envScheme)
	if text == "" || (ok && regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)) {
		return Secret(text), nil
	}
	return "", p.invalid("a secret does not stand in the settings").
		WithHint("name the place where it lies: env:NAME for a variable, file:PATH for a file of mode 600")
}

// secrets parses a comma-separated list of NAME=REFERENCE.
func (p place) secrets(text string) (map[string]Secret, error) {
	var all map[string]Secret
	for _, part := range split(text) {
		name, value, found := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !found || !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`).MatchString(name) {
			return nil, p.invalid("a name has lower case letters, digits, _ and -, at most 32, and then = and the place of its secret").
				WithHint("such as ops=env:OPS_URL")
		}
		if all[name] != "" {
			return nil, p.invalid("the name %s stands twice", name)
		}
		secret, err := p.secret(strings.TrimSpace(value))
		if err != nil {
			return nil, err
		}
		if secret == "" {
			return nil, p.invalid("%s needs the place of its secret", name)
		}
		if all == nil {
			all = map[string]Secret{}
		}
		all[name] = secret
	}
	return all, nil
}
