package config

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/netguard"
)

// ModelProvider is a provider of language models.
type ModelProvider struct {
	// Wire is the protocol: openai, anthropic or gemini. URL is the base URL; "" means that of the company.
	Wire, URL string
	// Key is the credential; "" for none.
	Key Secret
	// Headers are added to each request, Fields to its body.
	Headers map[string]ModelHeader
	Fields  map[string]json.RawMessage
	// CA is a file with root certificates that are trusted besides those of the system; "" for none.
	CA string
	// Concurrency is how many requests the provider gets at the same time; 0 means the default (see Slots).
	Concurrency int
	// Idle ends an answer that stands still; 0 means the default of the protocol.
	Idle time.Duration
}

// The default limits of requests to a provider at the same time: of a server on this machine, which has few slots, and of any other.
const (
	defaultLocalSlots = 8
	defaultSlots      = 64
)

// Slots returns how many requests the provider gets at the same time.
func (p ModelProvider) Slots() int {
	if p.Concurrency > 0 {
		return p.Concurrency
	}
	if u, err := url.Parse(p.URL); err == nil && netguard.IsLoopback(u.Hostname()) {
		return defaultLocalSlots
	}
	return defaultSlots
}

// SecretFiles returns the files that a provider reads, which tools must not read or change.
func (p ModelProvider) SecretFiles() []string {
	files := []string{p.Key.File(), p.CA}
	for _, h := range p.Headers {
		files = append(files, h.Secret.File())
	}
	return slices.DeleteFunc(files, func(path string) bool { return path == "" })
}

// SecretVariables returns the environment variables that a provider reads.
func (p ModelProvider) SecretVariables() []string {
	var names []string
	add := func(s Secret) {
		if name, ok := strings.CutPrefix(string(s), envScheme); ok {
			names = append(names, name)
		}
	}
	add(p.Key)
	for _, h := range p.Headers {
		add(h.Secret)
	}
	return names
}

// modelWires lists the protocols of providers.
func modelWires() []string { return []string{"anthropic", "gemini", "openai"} }

// givenProvider is the text form of ModelProvider.
type givenProvider struct {
	Wire    string               `yaml:"wire"`
	URL     string               `yaml:"url"`
	Key     string               `yaml:"key"`
	Headers map[string]string    `yaml:"headers"`
	Fields  map[string]yaml.Node `yaml:"fields"`
	CA      string               `yaml:"ca"`
	Idle    string               `yaml:"idle"`

	Concurrency *int `yaml:"concurrency,omitempty"`
}

// provider checks a provider.
func (p place) provider(name string, g givenProvider) (ModelProvider, error) {
	provider := ModelProvider{Wire: g.Wire, URL: strings.TrimSuffix(g.URL, "/")}
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`).MatchString(name) {
		return provider, p.invalid("%q is no name of a provider: use lower-case letters, digits and -, at most 32", name)
	}
	if !slices.Contains(modelWires(), g.Wire) {
		return provider, p.invalid("the wire %q of the provider %s is none of %s", g.Wire, name, strings.Join(modelWires(), ", "))
	}
	var err error
	if provider.Key, err = p.of("key of the provider " + name).secret(g.Key); err != nil {
		return provider, err
	}
	if provider.Headers, err = p.modelHeaders(name, g); err != nil {
		return provider, err
	}
	if provider.Fields, err = p.modelFields(name, g); err != nil {
		return provider, err
	}
	if problem := problemOfURL(provider.URL, provider.hasSecret()); problem != "" {
		return provider, p.invalid("the url of the provider %s %s", name, problem)
	}
	if g.CA != "" {
		if provider.CA, err = p.resolve(g.CA); err != nil {
			return provider, err
		}
	}
	if provider.Concurrency, err = p.of("the provider " + name).concurrency(g.Concurrency); err != nil {
		return provider, err
	}
	if g.Idle != "" {
		if provider.Idle, err = time.ParseDuration(g.Idle); err != nil || provider.Idle <= 0 {
			return provider, p.invalid("the idle time %q of the provider %s is no duration", g.Idle, name).WithHint("write it as 30s or 5m")
		}
	}
	return provider, nil
}

// hasSecret reports whether requests to the provider contain a secret.
func (p ModelProvider) hasSecret() bool {
	for _, h := range p.Headers {
		if h.Secret != "" {
			return true
		}
	}
	return p.Key != ""
}

// problemOfURL returns what is wrong with the base URL of a provider, or "". A credential crosses plain http on loopback only.
func problemOfURL(text string, credential bool) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is no http or https URL"
	case u.User != nil:
		return "contains a user: the credential belongs into `key`"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "contains a query or a fragment: it is the address before the path of each request"
	case credential && u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()):
		return "would send a secret without encryption: use https"
	default:
		return ""
	}
}
