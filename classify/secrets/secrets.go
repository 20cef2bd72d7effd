// Package secrets finds credentials in text. What it looks for is data where that will do: providers.json holds
// the rules of gitleaks, more.json those of this package. Code finds what no regular expression describes well:
// private keys, encoded credentials, headers, and values that are assigned to a name which says that they are secret.
//
// It reads plain text and text inside JSON strings, however often it is encoded, so that escaped quotes and line
// breaks hide nothing. Values that only refer to a secret, such as ${TOKEN} or os.Getenv("TOKEN"), are none.
package secrets

import "sync"

// Finding is a secret in a text.
type Finding struct {
	// Rule names the kind, such as private_key, github_pat or assignment.
	Rule string
	// Offset and Length tell the bytes of the secret itself.
	Offset, Length int
}

// Find returns the secrets in data, in order and without overlap.
func Find(data []byte) []Finding { return theIndex().find(data) }

// Rules returns the names of all rules, each once, in the order in which they are tried.
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

// matcher returns the bytes of the secret whose keyword begins at an offset of data, if there is one. One that has
// looked far ahead in vain returns as end how far.
type matcher func(data []byte, at int) (begin, end int, ok bool)

// key is a text that every secret of a rule has, and what decides whether it is one.
type key struct {
	rule string
	text string // lower case when fold is set
	fold bool
	// begins is set when no letter or digit may stand before it.
	begins bool
	// dotted is set when it may stand in the secret itself, behind a dot.
	dotted bool
	find   matcher
}

// The order decides where two rules find something at the same place.
func allKeys() []key {
	var keys []key
	for _, list := range [][]key{shapes(), providers(), headers(), assignments()} {
		keys = append(keys, list...)
	}
	return keys
}

var theIndex = sync.OnceValue(func() *index { return newIndex(allKeys()) })
