package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// Finding is a secret in a text.
type Finding struct {
	// Rule names the kind: private_key, aws_access_key, github_token, api_key, orch_token, jwt,
	// url_password or assignment.
	Rule string
	// Offset and Length tell the bytes of the secret itself.
	Offset, Length int
}

// FindSecrets returns the secrets in data, in order and without overlap. It reads plain text and
// text inside JSON strings, however often it is encoded, so that escaped quotes and line breaks hide
// nothing. Values that only refer to a secret, such as ${TOKEN} or os.Getenv("TOKEN"), are none.
func FindSecrets(data []byte) []Finding { return theScanner().find(data) }

// Redact replaces every secret in data by [REDACTED:rule] and reports whether there was one. Valid
// JSON stays valid. Without a secret it returns data itself.
func Redact(data []byte) ([]byte, bool) { return redact(data, FindSecrets) }

// Redact is the function of the same name, with the allow list of the policy.
func (p *Policy) Redact(data []byte) ([]byte, bool) { return redact(data, p.findings) }

// findings returns the secrets that are not on the allow list.
func (p *Policy) findings(data []byte) []Finding {
	found := FindSecrets(data)
	kept := found[:0]
	for _, f := range found {
		if !p.allowed(string(data[f.Offset : f.Offset+f.Length])) {
			kept = append(kept, f)
		}
	}
	return kept
}

func redact(data []byte, find func([]byte) []Finding) ([]byte, bool) {
	found := find(data)
	if len(found) == 0 {
		return data, false
	}
	out := replace(data, found)
	if json.Valid(data) && !json.Valid(out) {
		// A match went across the end of a JSON string: look into each string by itself.
		return redactStrings(data, find), true
	}
	return out, true
}

func replace(data []byte, found []Finding) []byte {
	out := make([]byte, 0, len(data)+16*len(found))
	at := 0
	for _, f := range found {
		out = append(out, data[at:f.Offset]...)
		out = append(out, "[REDACTED:"+f.Rule+"]"...)
		at = f.Offset + f.Length
	}
	return append(out, data[at:]...)
}

// redactStrings redacts the strings of a valid JSON text one by one, in their encoded form.
func redactStrings(data []byte, find func([]byte) []Finding) []byte {
	out := make([]byte, 0, len(data))
	for at := 0; at < len(data); {
		begin := bytes.IndexByte(data[at:], '"')
		if begin < 0 {
			return append(out, data[at:]...)
		}
		begin += at + 1
		end := begin + stringEnd(data[begin:])
		out = append(out, data[at:begin]...)
		out = append(out, redactString(data[begin:end], find)...)
		at = end + copyQuote(&out, data, end)
	}
	return out
}

func copyQuote(out *[]byte, data []byte, at int) int {
	if at < len(data) {
		*out = append(*out, data[at])
		return 1
	}
	return 0
}

// redactString redacts the inside of one JSON string; if even that breaks an escape, nothing of it stays.
func redactString(inside []byte, find func([]byte) []Finding) []byte {
	found := find(inside)
	if len(found) == 0 {
		return inside
	}
	out := replace(inside, found)
	if !json.Valid([]byte(`"` + string(out) + `"`)) {
		return []byte("[REDACTED:" + found[0].Rule + "]")
	}
	return out
}

// stringEnd returns the offset of the quote that ends a JSON string.
func stringEnd(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}

// rule finds one kind of secret. Every secret has a keyword; match is called with the offset where it
// begins and returns the bytes of the secret, if it is one.
type rule struct {
	name    string
	keyword string // lower case when fold is set
	fold    bool
	// anchor is the offset of the three bytes of the keyword that are searched for: rare ones.
	anchor int
	match  func(data []byte, at int) (begin, end int, ok bool)
}

func rules() []rule {
	list := []rule{
		{name: "private_key", keyword: "-----BEGIN", anchor: 6, match: privateKey},
		{name: "aws_access_key", keyword: "AKIA", anchor: 1, match: awsKey},
		{name: "github_token", keyword: "github_pat_", anchor: 7, match: githubPAT},
		{name: "api_key", keyword: "sk-", anchor: 0, match: skKey},
		{name: "orch_token", keyword: "orch_", anchor: 2, match: orchToken},
		{name: "jwt", keyword: "eyJ", anchor: 0, match: jwt},
		{name: "url_password", keyword: "://", anchor: 0, match: urlPassword},
		{name: "url_password", keyword: "@tcp(", anchor: 0, match: dsnPassword},
		{name: "url_password", keyword: "@unix(", anchor: 0, match: dsnPassword},
	}
	for _, kind := range "pousr" {
		list = append(list, rule{name: "github_token", keyword: "gh" + string(kind) + "_", anchor: 1, match: githubToken})
	}
	for _, word := range []struct {
		keyword string
		anchor  int
	}{
		{"password", 2}, {"passwd", 3}, {"passphrase", 4}, {"secret", 2}, {"token", 1}, {"api_key", 0}, {"apikey", 0}, {"api-key", 0},
	} {
		list = append(list, rule{name: "assignment", keyword: word.keyword, fold: true, anchor: word.anchor, match: assignmentOf(word.keyword)})
	}
	return list
}

// scanner looks at every second pair of bytes. The three bytes of an anchor cover one such pair
// wherever they lie, and few texts hold many of these pairs, so that most of a text costs one table
// look-up for two bytes.
type scanner struct {
	// index maps a pair of bytes to its probes; 0 means none.
	index  [1 << 16]uint8
	probes [][]probe
}

// probe says that the keyword of rule begins delta bytes before the pair.
type probe struct {
	rule  *rule
	delta int
}

var theScanner = sync.OnceValue(func() *scanner {
	s := &scanner{probes: make([][]probe, 1)}
	for _, r := range rules() {
		for shift := range 2 {
			s.add(&r, r.anchor+shift)
		}
	}
	return s
})

func (s *scanner) add(r *rule, at int) {
	pair := r.keyword[at : at+2]
	for _, form := range caseForms(pair, r.fold) {
		key := uint16(form[0])<<8 | uint16(form[1])
		if s.index[key] == 0 {
			s.index[key] = uint8(len(s.probes)) //nolint:gosec // there are fewer than 256 pairs, see the test
			s.probes = append(s.probes, nil)
		}
		i := s.index[key]
		s.probes[i] = append(s.probes[i], probe{r, at})
	}
}

// caseForms returns the ways to write a pair, in capitals and not.
func caseForms(pair string, fold bool) []string {
	forms := []string{pair}
	if !fold {
		return forms
	}
	for _, form := range []string{strings.ToUpper(pair[:1]) + pair[1:], pair[:1] + strings.ToUpper(pair[1:]), strings.ToUpper(pair)} {
		if form != forms[0] && form != forms[len(forms)-1] {
			forms = append(forms, form)
		}
	}
	return forms
}

func (s *scanner) find(data []byte) []Finding {
	var found []Finding
	after := 0 // end of the last finding
	for i := 0; i+1 < len(data); i += 2 {
		n := s.index[uint16(data[i])<<8|uint16(data[i+1])]
		if n == 0 || i < after {
			continue
		}
		for _, p := range s.probes[n] {
			f, ok := p.try(data, i-p.delta)
			if ok && f.Offset >= after {
				found = append(found, f)
				after = f.Offset + f.Length
				break
			}
		}
	}
	return found
}

func (p probe) try(data []byte, at int) (Finding, bool) {
	end := at + len(p.rule.keyword)
	if at < 0 || end > len(data) || !p.rule.has(data[at:end]) {
		return Finding{}, false
	}
	begin, end, ok := p.rule.match(data, at)
	return Finding{Rule: p.rule.name, Offset: begin, Length: end - begin}, ok
}

func (r *rule) has(text []byte) bool {
	if r.fold {
		return strings.EqualFold(string(text), r.keyword)
	}
	return string(text) == r.keyword
}
