package plan

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// MaxSecrets bounds the secrets of one plan.
const MaxSecrets = 32

const (
	rootSecrets = "secrets"
	// maxPrefix bounds the text before a secret, such as "Bearer ".
	maxPrefix = 64
)

var (
	secretName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	secretHandle = regexp.MustCompile(`^\s*secrets\.([A-Za-z_][A-Za-z0-9_]{0,63})\s*$`)
	secretInEnv  = regexp.MustCompile(`^env:[A-Za-z_][A-Za-z0-9_]*$`)
)

// SecretUse is one entry of an argument whose value is a secret. The arguments contain Text as a placeholder. The
// worker that executes the call replaces the placeholder by the secret in Source.
type SecretUse struct {
	Field, Key   string // the argument, such as env, and its entry
	Name, Source string
	Prefix       string // precedes the secret, such as "Bearer "
}

// Text returns the placeholder of the secret in the arguments.
func (u SecretUse) Text() string {
	return u.Prefix + opening + " " + rootSecrets + "." + u.Name + " " + closing
}

// SecretSources returns the sources of the secrets of the plan and its sub-plans, sorted, such as env:DB_PASSWORD.
func (p *Plan) SecretSources() []string {
	sources := map[string]bool{}
	p.collectSecrets(sources)
	return slices.Sorted(maps.Keys(sources))
}

func (p *Plan) collectSecrets(sources map[string]bool) {
	for _, source := range p.Secrets {
		sources[source] = true
	}
	for _, steps := range [][]*Step{p.Steps, p.Verify, p.Always} {
		collectSecrets(steps, sources)
	}
}

func collectSecrets(steps []*Step, sources map[string]bool) {
	for _, s := range steps {
		collectSecrets(s.inner(), sources)
		if s.Run != nil {
			s.Run.collectSecrets(sources)
		}
	}
}

// secrets parses the sources of secrets. An invalid source may be the secret itself, so no problem quotes it.
func (c cursor) secrets() map[string]string {
	all := map[string]string{}
	for _, p := range c.pairs() {
		if !secretName.MatchString(p.key) {
			p.reportKey("a secret has no such name", "names have letters, digits and _, begin with no digit, and have at most 64 letters")
		}
		source := p.value.text()
		if file, isFile := strings.CutPrefix(source, "file:"); !secretInEnv.MatchString(source) && (!isFile || !filepath.IsAbs(file) || filepath.Clean(file) != file) {
			p.value.report("a plan holds no secret, only the place where it lies", "write env:NAME for a variable of the worker, or file:/PATH for a file of it")
		}
		all[p.key] = source
	}
	if len(all) > MaxSecrets {
		c.report(fmt.Sprintf("a plan has at most %d secrets, this has %d", MaxSecrets, len(all)), "")
	}
	return all
}

// secretArgs returns the arguments of a call with placeholders for secrets, and records the secrets in n.
func (l *linker) secretArgs(n *Node, at location) any {
	given, ok := n.With.(map[string]any)
	if !ok || n.Kind != KindTool || len(l.plan.Secrets) == 0 {
		return n.With
	}
	args := maps.Clone(given)
	for _, field := range sortedKeys(given) {
		entries, ok := given[field].(map[string]any)
		if !ok {
			continue
		}
		changed := maps.Clone(entries)
		for _, key := range sortedKeys(entries) {
			if use, found := l.secretUse(entries[key], at.field(field).field(key)); found {
				use.Field, use.Key = field, key
				n.Secrets = append(n.Secrets, use)
				changed[key] = escape(use.Text())
			}
		}
		args[field] = changed
	}
	return args
}

// secretUse parses a value that is a secret with an optional prefix.
func (l *linker) secretUse(v any, at location) (SecretUse, bool) {
	text, _ := v.(string)
	parts, err := segments(text)
	if err != nil || len(parts) == 0 || len(parts) > 2 || !parts[len(parts)-1].expression || len(parts) == 2 && parts[0].expression {
		return SecretUse{}, false
	}
	last := parts[len(parts)-1]
	match := secretHandle.FindStringSubmatch(last.text)
	if match == nil {
		return SecretUse{}, false
	}
	use := SecretUse{Name: match[1], Source: l.plan.Secrets[match[1]]}
	if len(parts) == 2 {
		use.Prefix = parts[0].text
	}
	if use.Source == "" {
		at.reportIn(last.text, strings.Index(last.text, use.Name), "there is no secret "+quote(use.Name),
			at.suggest(use.Name, sortedKeys(l.plan.Secrets), "declare it below `secrets`"))
	}
	if len(use.Prefix) > maxPrefix {
		at.report(fmt.Sprintf("at most %d bytes may precede a secret", maxPrefix), "")
	}
	return use, true
}

// checkSecrets reports secrets in arguments that do not accept them.
func (l *linker) checkSecrets(n *Node, at location) {
	for _, use := range n.Secrets {
		where := at.field("with").field(use.Field).field(use.Key)
		fields, known := l.secretFields(n.Tool)
		prefixed, takes := fields[use.Field]
		switch {
		case !known:
		case !takes:
			where.report("`"+use.Field+"` of "+n.Tool+" takes no secret", secretPlaces)
		case use.Prefix != "" && !prefixed:
			where.report("nothing may precede or follow a secret in `"+use.Field+"`", "put it together in the program")
		}
	}
}

// secretFields returns the arguments of a tool that accept secrets; the value is true if text may precede the secret.
func (l *linker) secretFields(tool string) (fields map[string]bool, known bool) {
	if l.opt.Tool == nil {
		return nil, false
	}
	info, known := l.opt.Tool(tool)
	return info.Secrets, known
}

// secretPlaces is the hint about the places where secrets are allowed.
const secretPlaces = "a secret declared below `secrets` is the whole value of an entry of `env` of BASH_EXECUTE, or the end of one of `headers` of HTTP_REQUEST; " +
	"nothing else sees it, neither commands nor conditions, outputs and agents"
