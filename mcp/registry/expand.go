package registry

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
)

// expandedConfig is a definition with its variables replaced by their values.
type expandedConfig struct {
	MCPConfig

	// conceal hides all values in a text that may be secret, including all values of env and headers.
	conceal func(string) string
	// guard hides only the values in a text that are definitely secret: tokens, and variables, values of env and headers with
	// names of secrets. It is used for results, which must keep, for example, a path that is also a value in env.
	guard func(string) string
	// unset are variables without a value.
	unset []string
	// login provides the token of each request; nil if the definition has a token, or needs none.
	login *oauth.Source
}

// expander replaces references to variables.
type expander struct {
	getenv func(string) string
	// secrets are the values that may be secret.
	secrets []string
	// guarded are the values that are definitely secret.
	guarded []string
	// unset are variables without a value, refused are secret variables in the command line.
	unset, refused []string
}

// expand replaces the variables in a definition by their values. It returns VALIDATION_ERROR if the command line names a secret
// variable.
func expand(c MCPConfig, getenv func(string) string) (expandedConfig, error) {
	e := expander{getenv: getenv}
	c.Command, c.Cwd, c.Args = e.public(c.Command), e.public(c.Cwd), slices.Clone(c.Args)
	for i, arg := range c.Args {
		c.Args[i] = e.public(arg)
	}
	c.Env, c.Headers, c.Bearer = e.values(c.Env), e.values(c.Headers), e.secret(c.Bearer)
	c.BaseURL, c.OAuth = e.text(c.BaseURL, false), e.oauth(c.OAuth)
	if u, err := url.Parse(c.BaseURL); err == nil {
		e.addURLSecrets(u)
	}
	if len(e.refused) > 0 {
		return expandedConfig{}, fault.New(fault.ValidationError, "the command line of %s names the secret %s, and every user of the machine can see it", c.Name, e.refused[0]).
			WithField("args").WithHint("pass it in env")
	}
	return expandedConfig{MCPConfig: c, conceal: concealer(e.secrets), guard: concealer(e.guarded), unset: e.unset}, nil
}

// addURLSecrets adds the secrets in a URL.
func (e *expander) addURLSecrets(u *url.URL) {
	if password, ok := u.User.Password(); ok {
		e.addSecret(password)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			e.secrets = append(e.secrets, value, url.QueryEscape(value))
		}
	}
}

// public expands a text that other users of the machine can see.
func (e *expander) public(text string) string { return e.text(text, true) }

// secret expands a secret text.
func (e *expander) secret(text string) string {
	value := e.text(text, false)
	e.addSecret(value)
	e.addSecret(strings.TrimPrefix(value, "Bearer "))
	return value
}

// addSecret adds a value that is definitely secret.
func (e *expander) addSecret(value string) {
	e.secrets, e.guarded = append(e.secrets, value), append(e.guarded, value)
}

// oauth expands the configuration of logins.
func (e *expander) oauth(o *OAuth) *OAuth {
	if o == nil {
		return nil
	}
	out := OAuth{ClientID: e.text(o.ClientID, false), ClientSecret: e.secret(o.ClientSecret), Issuer: e.text(o.Issuer, false)}
	for _, scope := range o.Scopes {
		out.Scopes = append(out.Scopes, e.text(scope, false))
	}
	return &out
}

// values expands the values of a map. It adds all of them to secrets, and the values with names of secrets to guarded.
func (e *expander) values(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for name, value := range m {
		if secretName(strings.ReplaceAll(name, "-", "_")) {
			out[name] = e.secret(value)
			continue
		}
		out[name] = e.text(value, false)
		e.secrets = append(e.secrets, out[name])
	}
	return out
}

// text replaces ${NAME} and ${env:NAME}, with or without :-default. It does not replace other references, but records
// ${input:NAME}, for which an MCP client would ask its user, as unset. With public it refuses secret variables.
func (e *expander) text(text string, public bool) string {
	for _, found := range regexp.MustCompile(`\$\{(input:[^}]*)\}`).FindAllStringSubmatch(text, -1) {
		e.unset = append(e.unset, found[1])
	}
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
			e.addSecret(value)
		}
		return value
	})
}

// secretName reports whether the name of a variable indicates a secret.
func secretName(name string) bool {
	return regexp.MustCompile(`(?i)SECRET|TOKEN|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|_KEY$|^KEY$|AUTH`).MatchString(name)
}

// shortSecret is the length below which values are not hidden: that would make texts unreadable, and protect little.
const shortSecret = 6

// concealer returns a function that replaces the given values in a text by hidden.
func concealer(values []string) func(string) string {
	var pairs []string
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // a value may contain another
	for _, value := range slices.Compact(values) {
		if len(value) >= shortSecret {
			pairs = append(pairs, value, hidden)
		}
	}
	return strings.NewReplacer(pairs...).Replace
}
