package registry

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// expansion is a definition with the values of its variables.
type expansion struct {
	MCPConfig

	// conceal hides secrets in a text.
	conceal func(string) string
	// unset are variables without a value.
	unset []string
}

// expander replaces references to variables.
type expander struct {
	getenv func(string) string
	// secrets are values that must not be shown.
	secrets []string
	// unset are variables without a value, refused those that an argument may not name.
	unset, refused []string
}

// expand returns a definition with the values of its variables. VALIDATION_ERROR when the command line names a secret.
func expand(c MCPConfig, getenv func(string) string) (expansion, error) {
	e := expander{getenv: getenv}
	c.Command, c.Cwd, c.Args = e.public(c.Command), e.public(c.Cwd), slices.Clone(c.Args)
	for i, arg := range c.Args {
		c.Args[i] = e.public(arg)
	}
	c.Env, c.Headers, c.Bearer = e.values(c.Env), e.values(c.Headers), e.secret(c.Bearer)
	c.BaseURL = e.text(c.BaseURL, false)
	if u, err := url.Parse(c.BaseURL); err == nil {
		e.keepURL(u)
	}
	if len(e.refused) > 0 {
		return expansion{}, fault.New(fault.ValidationError, "the command line of %s names the secret %s, and every user of the machine can see it", c.Name, e.refused[0]).
			WithField("args").WithHint("pass it in env")
	}
	return expansion{c, concealer(e.secrets), e.unset}, nil
}

// keepURL remembers the secrets in a URL.
func (e *expander) keepURL(u *url.URL) {
	if password, ok := u.User.Password(); ok {
		e.secrets = append(e.secrets, password)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			e.secrets = append(e.secrets, value, url.QueryEscape(value))
		}
	}
}

// public expands a text that others can see.
func (e *expander) public(text string) string { return e.text(text, true) }

// secret expands a text that nobody may see.
func (e *expander) secret(text string) string {
	value := e.text(text, false)
	e.secrets = append(e.secrets, value, strings.TrimPrefix(value, "Bearer "))
	return value
}

// values expands the values of a map. All of them count as secrets: their names do not tell.
func (e *expander) values(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for name, value := range m {
		out[name] = e.secret(value)
	}
	return out
}

// text replaces ${NAME}, ${env:NAME} and both with :-default. Other references stay as they are.
func (e *expander) text(text string, public bool) string {
	reference := regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		parts := reference.FindStringSubmatch(found)
		name, otherwise := parts[1], parts[2]
		if public && secretName(name) {
			e.refused = append(e.refused, name)
			return ""
		}
		value := e.getenv(name)
		switch {
		case value == "" && otherwise != "":
			return otherwise[len(":-"):]
		case value == "":
			e.unset = append(e.unset, name)
		case secretName(name):
			e.secrets = append(e.secrets, value)
		}
		return value
	})
}

// secretName tells names of variables that hold secrets.
func secretName(name string) bool {
	return regexp.MustCompile(`(?i)SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|_KEY$|^KEY$|AUTH`).MatchString(name)
}

// shortSecret is the length below which hiding a value would make texts unreadable, and would hide little.
const shortSecret = 6

// concealer returns a function that hides values.
func concealer(values []string) func(string) string {
	var pairs []string
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // a value may hold another
	for _, value := range slices.Compact(values) {
		if len(value) >= shortSecret {
			pairs = append(pairs, value, hidden)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}
