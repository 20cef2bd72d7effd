// Package secret reads the secrets that plans refer to, and redacts them in the results of calls.
package secret

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
)

// The minimum and maximum length of a secret, in bytes. A shorter secret would match everywhere, and its redaction
// would make output unreadable.
const (
	MinSize = 6
	MaxSize = 16 << 10
)

const (
	envScheme  = "env:"
	fileScheme = "file:"
	// nodePrefix begins the names of the node's own variables, which no plan may use.
	nodePrefix = "ORCH_"
)

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckPattern returns the error in an element of the setting secrets_allow as text, or "" if the element is valid. An
// element is env:NAME or file:/PATH, in which * matches any characters except /. At least one character must precede
// the first *.
func CheckPattern(pattern string) string {
	name, isEnv := strings.CutPrefix(pattern, envScheme)
	file, isFile := strings.CutPrefix(pattern, fileScheme)
	switch _, err := path.Match(pattern, ""); {
	case err != nil || strings.ContainsAny(pattern, `[]?\`):
		return "only * may stand for other characters"
	case isEnv && !variableForm.MatchString(strings.ReplaceAll(name, "*", "_")), isEnv && strings.HasPrefix(name, "*"):
		return "a variable is env:NAME, where * may stand behind the first letter"
	case isFile && (!filepath.IsAbs(file) || filepath.Clean(file) != file || strings.HasPrefix(file, "/*")):
		return "a file is file:/PATH, absolute and without . and .., where * may stand below a folder"
	case !isEnv && !isFile:
		return "name variables as env:NAME and files as file:/PATH"
	}
	return ""
}

// Allowed reports whether one of the patterns matches a source. The node's own variables are never allowed.
func Allowed(patterns []string, source string) bool {
	if strings.HasPrefix(source, envScheme+nodePrefix) {
		return false
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		fits, err := path.Match(pattern, source)
		return err == nil && fits
	})
}

// Hide returns the paths that must be hidden from programs because the patterns allow secrets there: the file itself,
// or the folder before the first *.
func Hide(patterns []string) []string {
	var places []string
	for _, pattern := range patterns {
		if file, ok := strings.CutPrefix(pattern, fileScheme); ok {
			if head, _, many := strings.Cut(file, "*"); many {
				file = filepath.Dir(head + "_")
			}
			places = append(places, file)
		}
	}
	return places
}

// Read returns the value of a source that one of the patterns allows, without surrounding white space. Errors never
// contain the value: FORBIDDEN for a source that is not allowed or a file that cannot be read, NOT_FOUND for a missing
// variable or file, VALIDATION_ERROR for a value that is too short, too long or not text, and for a file that other
// users may access.
func Read(source string, patterns []string) (string, error) {
	if !Allowed(patterns, source) {
		return "", NotAllowed(source)
	}
	text, err := fetch(source, patterns)
	if err != nil {
		return "", fault.From(err).WithReason("SECRET_UNAVAILABLE")
	}
	switch {
	case len(text) < MinSize:
		return "", fault.New(fault.ValidationError, "%s has fewer than %d bytes", source, MinSize).WithReason("SECRET_TOO_SHORT").
			WithHint("a text this short cannot be redacted from the result of a call")
	case len(text) > MaxSize:
		return "", fault.New(fault.ValidationError, "%s has more than %d bytes", source, MaxSize).WithReason("SIZE_LIMIT_EXCEEDED")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", fault.New(fault.ValidationError, "%s is not text", source).WithHint("encode it, such as in base64")
	}
	return text, nil
}

// NotAllowed returns the error for a source that the operator does not allow.
func NotAllowed(source string) *fault.Error {
	return fault.New(fault.Forbidden, "the setting secrets_allow does not allow %s", source).WithReason("SECRET_NOT_ALLOWED").
		WithHint("the operator allows sources of secrets there, of the node and of each worker, such as env:DB_* or file:/run/secrets/*")
}

// fetch returns the value of an allowed source.
func fetch(source string, patterns []string) (string, error) {
	if name, ok := strings.CutPrefix(source, envScheme); ok {
		text, set := os.LookupEnv(name)
		if !set {
			return "", fault.New(fault.NotFound, "this worker has no variable %s", name)
		}
		return strings.TrimSpace(text), nil
	}
	return readFile(strings.TrimPrefix(source, fileScheme), patterns)
}

// readFile reads a file. If the path is a link, its target must be allowed as well.
func readFile(name string, patterns []string) (string, error) {
	target, err := filepath.EvalSymlinks(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.NotFound, "this worker has no file %s", name)
	case err != nil:
		return "", fault.Wrap(fault.Forbidden, err, "cannot read "+name)
	case !Allowed(patterns, fileScheme+target):
		return "", fault.New(fault.Forbidden, "%s leads to %s, which secrets_allow does not allow", name, target)
	}
	f, err := os.OpenFile(target, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return "", fault.Wrap(fault.Forbidden, err, "cannot read "+name)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return "", fault.New(fault.ValidationError, "%s is not a regular file", name)
	case info.Mode().Perm()&0o077 != 0:
		return "", fault.New(fault.ValidationError, "%s is open to others (mode %o)", name, info.Mode().Perm()).WithHint("chmod 600 %s", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return "", fault.Wrap(fault.Forbidden, err, "cannot read "+name)
	}
	if len(data) > MaxSize {
		return string(data), nil // the caller reports its size
	}
	return strings.TrimSpace(string(data)), nil
}
