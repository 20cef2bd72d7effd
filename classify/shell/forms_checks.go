package shell

import (
	"slices"
	"strings"
)

// kill accepts signal 0, which only checks whether a process exists. A single computed word may follow, because it
// cannot name another signal there.
func kill(k *checker, c call) {
	args := c.args
	switch {
	case len(args) > 1 && args[0].fixed && args[0].text == "-0":
		args = args[1:]
	case len(args) > 2 && args[0].fixed && args[0].text == "-s" && args[1].fixed && args[1].text == "0":
		args = args[2:]
	default:
		k.destructive("kill ends a process")
		return
	}
	for i, a := range args {
		if a.fixed && strings.Trim(a.text, "0123456789") == "" || a.number || !a.fixed && a.one && i == 0 && len(args) == 1 {
			continue
		}
		k.destructive("the argument " + a.shown() + " of kill may name a signal")
	}
}

// runsEach accepts fd --exec if fd only reads and the command that it runs for each file is harmless.
func runsEach(k *checker, c call) {
	i := slices.IndexFunc(c.args, func(a arg) bool {
		return a.fixed && slices.Contains([]string{"-x", "-X", "--exec", "--exec-batch"}, a.text)
	})
	if i < 0 || !k.reads(call{name: c.name, args: c.args[:i]}) {
		k.destructive("an argument of " + c.name + " is not known to only read")
		return
	}
	words := execWords(c.args[i+1:])
	k.run(append(words, arg{}), true)
}

// sqlite accepts a single query of a database that is opened read-only.
func sqlite(k *checker, c call) {
	m := formMatch{args: c.args, form: form{operands: "*", options: formOptions("^readonly! ^json ^csv ^header ^noheader ^column ^line ^list ^box ^table ^markdown ^batch ^tabs ^separator=")}}
	if !m.match() || len(m.operand) != 2 || !m.operand[1].fixed || !isQuery(m.operand[1].text) {
		k.destructive("sqlite3 may change the database or run a program")
	}
}

// isQuery reports whether text is certainly a single query, or a command of sqlite3 that shows the schema.
func isQuery(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if slices.Contains([]string{".tables", ".schema", ".databases", ".indexes"}, text) {
		return true
	}
	text = strings.TrimSuffix(text, ";")
	for _, word := range []string{";", "\n", "load_extension", "writefile", "edit", "attach", "vacuum"} {
		if strings.Contains(text, word) {
			return false
		}
	}
	return strings.HasPrefix(text, "select ")
}
