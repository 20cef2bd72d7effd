// Package secrets finds credentials in text. Most rules are data: providers.json contains the rules of gitleaks,
// more.json the rules of this package. The other rules are code, because regular expressions are not suited to them:
// private keys, encoded credentials, headers, and values assigned to a name that implies a secret.
//
// It searches plain text and text in JSON strings, which may be encoded several times, so that escaped quotes and line
// breaks do not hide a secret. Values that only refer to a secret, such as ${TOKEN} or os.Getenv("TOKEN"), are not
// secrets.
package secrets

import "sync"

// Finding is a secret in a text.
type Finding struct {
	// Rule is the name of the rule that found it, such as private_key, github_pat or assignment.
	Rule string
	// Offset and Length are the position of the secret in bytes.
	Offset, Length int
}

// Find returns the secrets in data, in order and without overlap.
func Find(data []byte) []Finding { return theIndex().find(data) }

// Rules returns the names of all rules without duplicates, in the order in which they are tried.
func Rules() []string {
	var names []string
	known := map[string]bool{}
	for _, k := range allKeys() {
		if !known[k.rule] {
			known[k.rule] = true
			names = append(names, k.rule)
		}
	}
	return names
}

// matcher looks for the secret that has its keyword at offset at of data. If ok is true, begin and end are the position
// of the secret. If ok is false, end is the end of the text that the matcher has read; 0 if it has not read far.
type matcher func(data []byte, at int) (begin, end int, ok bool)

// key is a keyword that every secret of a rule contains. Its matcher decides whether an occurrence of the keyword
// belongs to a secret.
type key struct {
	rule string
	text string // lower case when fold is set
	fold bool
	// begins is true if no letter or digit may precede the keyword.
	begins bool
	// dotted is true if the keyword may occur again inside the secret, after a dot.
	dotted bool
	find   matcher
}

// allKeys returns the keys of all rules, by precedence: if two rules match at the same offset, the first one counts.
func allKeys() []key {
	var keys []key
	for _, list := range [][]key{shapes(), providers(), headers(), assignments()} {
		keys = append(keys, list...)
	}
	return keys
}

var theIndex = sync.OnceValue(func() *index { return newIndex(allKeys()) })
