package shell

import (
	"path"
	"slices"
	"strings"
)

// form describes calls of a program that only read. The tables in forms_*.go list forms, one per line: subcommands ":"
// options "|" operands. A line that begins with - or ^ lists options that are common to the forms after it.
type form struct {
	subs     [][]string // alternative subcommands, each as its words
	options  []formOption
	operands string // a kind for operandKinds, or the permitted words
}

// formOption is an option that a form allows.
type formOption struct {
	name     string // with its dashes; without dashes for a ^word
	value    byte   // 0: no value, '=': a value, '?': an optional joined value
	must     string // permitted values, "local" for a local file, "" for any value
	required byte   // mark: at least one option with the mark '!' must be present, and one with '%'; 0 for none
	denied   bool   // refused, also abbreviated
	word     bool   // a ^word: an option with any number of dashes, as in openssl
	common   bool   // also allowed before the subcommand
}

// parseForms parses the forms of a program, one per line.
func parseForms(text string) []form {
	var common []formOption
	var forms []form
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case line[0] == '-' || line[0] == '^':
			for _, o := range formOptions(line) {
				o.common = true
				common = append(common, o)
			}
			continue
		}
		head, rest, _ := strings.Cut(line, ":")
		options, operands, _ := strings.Cut(rest, "|")
		f := form{operands: strings.TrimSpace(operands), options: append(formOptions(options), common...)}
		for sub := range strings.SplitSeq(head, ",") {
			f.subs = append(f.subs, strings.Fields(sub))
		}
		forms = append(forms, f)
	}
	return forms
}

// formOptions parses the options of a form.
func formOptions(text string) []formOption {
	var options []formOption
	for token := range strings.FieldsSeq(text) {
		var o formOption
		if last := token[len(token)-1]; last == '!' || last == '%' {
			o.required, token = last, token[:len(token)-1]
		}
		if token[0] == '!' {
			o.denied, token = true, token[1:]
		}
		if name, must, ok := strings.Cut(token, "="); ok {
			o.value, o.must, token = '=', must, name
		} else if strings.HasSuffix(token, "?") {
			o.value, token = '?', token[:len(token)-1]
		}
		switch {
		case token[0] == '^':
			o.word, o.name = true, token[1:]
			options = append(options, o)
		case strings.HasPrefix(token, "--"):
			o.name = token
			options = append(options, o)
		default:
			for _, letter := range token[1:] {
				o.name = "-" + string(letter)
				options = append(options, o)
			}
		}
	}
	return options
}

// reads reports whether a call matches one of the program's forms, so that it only reads.
func (k *checker) reads(c call) bool {
	if c.name == "docker-compose" {
		c.name, c.args = "docker", append([]arg{{text: "compose", fixed: true}}, c.args...)
	}
	text := forms(c.name)
	if c.name == "tar" {
		c.args = oldStyle(c.args)
	}
	return text != "" && slices.ContainsFunc(parseForms(text), func(f form) bool { return f.matches(c.args) })
}

// oldStyle converts option letters without a dash in tar's first argument to options with a dash. f is the only
// supported letter with a value, so it is moved to the end.
func oldStyle(args []arg) []arg {
	if len(args) == 0 || !args[0].fixed || args[0].text == "" || strings.Trim(args[0].text, "tdxcvzjJaZpPkRSOhf") != "" || strings.Count(args[0].text, "f") > 1 {
		return args
	}
	letters := strings.ReplaceAll(args[0].text, "f", "")
	if letters != args[0].text {
		letters += "f"
	}
	return append([]arg{{text: "-" + letters, fixed: true}}, args[1:]...)
}

// matches reports whether the form allows a call with these arguments.
func (f form) matches(args []arg) bool {
	return slices.ContainsFunc(f.subs, func(sub []string) bool {
		m := formMatch{form: f, sub: sub, args: args}
		return m.match()
	})
}

// formMatch matches the arguments of a call against a form.
type formMatch struct {
	form
	sub      []string
	args     []arg
	operand  []arg  // the operands so far
	required string // the marks of required options that were met
}

// match reports whether the form allows the arguments.
func (m *formMatch) match() bool {
	for len(m.args) > 0 {
		a := m.args[0]
		m.args = m.args[1:]
		switch {
		case a.fixed && a.text == "--" && len(m.sub) == 0:
			m.operand = append(m.operand, m.args...)
			m.args = nil
		case a.option():
			if !a.fixed && !strings.Contains(a.text, "=") || !m.option(a) {
				return false
			}
		case len(m.sub) > 0:
			if ok, _ := path.Match(m.sub[0], a.text); !ok || !a.fixed {
				return false
			}
			m.sub = m.sub[1:]
		default:
			m.operand = append(m.operand, a)
		}
	}
	return len(m.sub) == 0 && m.met('!') && m.met('%') && operandsMatch(m.operands, m.operand)
}

// met reports whether an option with the mark is present. It returns true if no option of the form has the mark.
func (m *formMatch) met(mark byte) bool {
	demands := slices.ContainsFunc(m.options, func(o formOption) bool { return o.required == mark })
	return !demands || strings.IndexByte(m.required, mark) >= 0
}

// option parses an option and its value. It returns false if the form does not allow them.
func (m *formMatch) option(a arg) bool {
	name, value, joined := strings.Cut(a.text, "=")
	if m.denies(name) {
		return false
	}
	long := strings.HasPrefix(a.text, "--")
	for _, o := range m.options {
		exact := o.name == name && (long || !joined)
		if o.word {
			exact = o.name == strings.TrimLeft(name, "-")
		}
		switch {
		case !exact || o.denied || !m.inPlace(o):
		case joined:
			return o.value != 0 && m.use(o, arg{text: value, fixed: a.fixed, one: a.one})
		case o.value == '=':
			return m.next(o)
		default:
			return m.use(o, arg{fixed: true})
		}
	}
	switch {
	case long:
		return len(m.sub) == 0 && m.has("--*") && a.fixed && !strings.Contains(value, "://")
	case strings.Trim(a.text[1:], "0123456789") == "" && m.has("-#"):
		return true
	}
	return a.fixed && m.letters(a.text[1:])
}

// letters parses combined single-letter options.
func (m *formMatch) letters(text string) bool {
	for text != "" {
		i := slices.IndexFunc(m.options, func(o formOption) bool { return o.name == "-"+text[:1] && m.inPlace(o) })
		if i < 0 {
			return false
		}
		o := m.options[i]
		text = text[1:]
		switch {
		case o.value == 0:
			m.required += string(o.required)
		case text == "" && o.value == '=':
			return m.next(o)
		default:
			return m.use(o, arg{text: text, fixed: true})
		}
	}
	return true
}

// next uses the next word as the value of an option.
func (m *formMatch) next(o formOption) bool {
	if len(m.args) == 0 {
		return false
	}
	value := m.args[0]
	m.args = m.args[1:]
	return m.use(o, value)
}

// use records an option with its value. It returns false if the value is not permitted or may be several words.
func (m *formMatch) use(o formOption, value arg) bool {
	m.required += string(o.required)
	switch o.must {
	case "":
		return value.fixed || value.one || value.safe
	case "local":
		return value.fixed && isLocal(value.text)
	}
	return value.fixed && slices.Contains(strings.Split(o.must, ","), value.text)
}

// inPlace reports whether an option is allowed at the current position: before the subcommand only common options are.
func (m *formMatch) inPlace(o formOption) bool { return len(m.sub) == 0 || o.common }

func (m *formMatch) has(name string) bool {
	return slices.ContainsFunc(m.options, func(o formOption) bool { return o.name == name })
}

// denies reports whether a long name may be an abbreviation of a denied option.
func (m *formMatch) denies(name string) bool {
	return slices.ContainsFunc(m.options, func(o formOption) bool { return o.denied && strings.HasPrefix(o.name, name) })
}

// isLocal reports whether a name certainly denotes a local file.
func isLocal(name string) bool { return !strings.Contains(name, ":") }

// operandKinds returns the check for a kind of operand, or nil if kind is not a kind but a list of words.
func operandKinds(kind string) func(text string) bool {
	switch kind {
	case "*", "?":
		return func(string) bool { return true }
	case "local":
		return isLocal
	case "name": // neither a file nor another kind of option
		return func(text string) bool { return !strings.ContainsAny(text[:1], "+@") && !strings.Contains(text, "/") }
	case "noplus":
		return func(text string) bool { return text[0] != '+' }
	case "noresponse": // binutils read options from @file
		return func(text string) bool { return text[0] != '@' }
	case "noassign":
		return func(text string) bool { return !strings.Contains(text, "=") }
	case "key": // a key of git config
		return func(text string) bool { return strings.Contains(text, ".") }
	case "nosecret":
		return func(text string) bool { return !strings.Contains(strings.ToLower(text), "secret") }
	case "nourl":
		return func(text string) bool { return !strings.Contains(text, "://") || strings.HasPrefix(text, "s3://") }
	}
	return nil
}

// operandsMatch reports whether a form with the given permitted operands allows these operands. A computed word may be
// an option, so most kinds do not allow it.
func operandsMatch(permitted string, operands []arg) bool {
	if (permitted == "?" || permitted == "key") && len(operands) > 1 {
		return false
	}
	kind := operandKinds(permitted)
	for _, a := range operands {
		switch {
		case kind == nil && (!a.fixed || !slices.Contains(strings.Fields(permitted), a.text)):
			return false
		case kind != nil && !a.fixed && (!a.safe && !a.number || permitted != "*" && permitted != "?"):
			return false
		case kind != nil && a.text != "" && !kind(a.text):
			return false
		}
	}
	return true
}
