package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/secrets"
)

// Set is the set of secrets of one call, prepared for searching. A nil Set is empty.
type Set struct {
	values map[string]bool
	forms  []form
}

// form is an encoded form of a secret.
type form struct {
	text []byte
	rule string
}

// NewSet returns a set of secrets by name, or nil if values is empty.
func NewSet(values map[string]string) *Set {
	if len(values) == 0 {
		return nil
	}
	s := &Set{values: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s.values[values[name]] = true
		for _, text := range forms(values[name]) {
			s.forms = append(s.forms, form{[]byte(text), "secrets." + name})
		}
	}
	return s
}

// Holds reports whether text is one of the secrets.
func (s *Set) Holds(text string) bool { return s != nil && s.values[text] }

// Redact returns data with every occurrence of a secret, in any of its forms, replaced by [REDACTED:secrets.NAME]. It
// reports whether there was an occurrence. Valid JSON stays valid.
func (s *Set) Redact(data []byte) ([]byte, bool) {
	if s == nil {
		return data, false
	}
	return secrets.Redact(data, s.find)
}

// Find returns the positions of the secrets in data, in any of their forms, in order and without overlap.
func (s *Set) Find(data []byte) []secrets.Finding {
	if s == nil {
		return nil
	}
	return s.find(data)
}

// Trim removes the end of truncated data if it may be the beginning of a secret.
func (s *Set) Trim(data []byte) []byte {
	if s == nil {
		return data
	}
	longest := 0
	for _, f := range s.forms {
		for n := min(len(f.text)-1, len(data)); n > longest; n-- {
			if bytes.HasSuffix(data, f.text[:n]) {
				longest = n
			}
		}
	}
	return data[:len(data)-longest]
}

// find returns the positions of secrets, in order. Overlapping positions are merged.
func (s *Set) find(data []byte) []secrets.Finding {
	var found []secrets.Finding
	for _, f := range s.forms {
		for at := 0; ; {
			i := bytes.Index(data[at:], f.text)
			if i < 0 {
				break
			}
			found = append(found, secrets.Finding{Rule: f.rule, Offset: at + i, Length: len(f.text)})
			at += i + 1
		}
	}
	slices.SortFunc(found, func(a, b secrets.Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return joined(found)
}

// joined merges overlapping findings, which must be sorted by offset.
func joined(found []secrets.Finding) []secrets.Finding {
	var out []secrets.Finding
	for _, f := range found {
		if n := len(out); n > 0 && f.Offset < out[n-1].Offset+out[n-1].Length {
			out[n-1].Length = max(out[n-1].Length, f.Offset+f.Length-out[n-1].Offset)
			continue
		}
		out = append(out, f)
	}
	return out
}

// forms returns the forms in which a secret may appear in output: unchanged, in a JSON string (encoded once or twice),
// in a URL, in base64 at any offset, and in hexadecimal. It includes the same forms of the longer lines of the secret.
func forms(text string) []string {
	plain := []string{text}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= longLine {
			plain = append(plain, line)
		}
	}
	var all []string
	for _, t := range plain {
		once := quoted(t)
		all = append(all, t, once, quoted(once), quotedHTML(t), quotedHTML(quotedHTML(t)), url.QueryEscape(t), url.PathEscape(t))
		all = append(all, hex.EncodeToString([]byte(t)), strings.ToUpper(hex.EncodeToString([]byte(t))))
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, inBase64(t, encoding)...)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(t string) bool { return len(t) < MinSize })
}

// longLine is the minimum length, in bytes, of a line of a multi-line secret that is searched for separately.
const longLine = 16

// quoted returns text as encoded inside a JSON string.
func quoted(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // encoding a string to a buffer cannot fail
	whole := strings.TrimSuffix(b.String(), "\n")
	return whole[1 : len(whole)-1]
}

// quotedHTML is quoted with <, > and & escaped, as json.Marshal does.
func quotedHTML(text string) string {
	raw, _ := json.Marshal(text) // encoding a string cannot fail
	return string(raw[1 : len(raw)-1])
}

// inBase64 returns the base64 encodings of text within a longer text. There is one for each of the three alignments; it
// omits characters that depend on the surrounding bytes. For each alignment there is also the encoding of text at the
// end of the longer text.
func inBase64(text string, encoding *base64.Encoding) []string {
	var all []string
	for before := range 3 {
		whole := encoding.EncodeToString(append(make([]byte, before), text...))
		first := (before*8 + 5) / 6
		last := (before + len(text)) * 8 / 6
		all = append(all, whole[first:last], whole[first:])
	}
	return all
}
