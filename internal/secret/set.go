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

// Redact returns data with every form of the secrets replaced by [REDACTED:secrets.NAME], and reports whether there was
// one. Valid JSON stays valid.
func (s *Set) Redact(data []byte) ([]byte, bool) {
	if s == nil {
		return data, false
	}
	return secrets.Redact(data, s.find)
}

// Trim removes the end of truncated data if it may be the beginning of a secret.
func (s *Set) Trim(data []byte) []byte {
	if s == nil {
		return data
	}
	most := 0
	for _, f := range s.forms {
		for n := min(len(f.text)-1, len(data)); n > most; n-- {
			if bytes.HasSuffix(data, f.text[:n]) {
				most = n
			}
		}
	}
	return data[:len(data)-most]
}

// find returns the positions of secrets, in order. Overlapping ones are merged.
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

// forms returns the encoded forms of a secret: unchanged, each of its longer lines, in a JSON string (once and twice
// encoded), in a URL, in base64 at any offset, and in hexadecimal.
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

// quotedHTML is quoted with the escapes for HTML.
func quotedHTML(text string) string {
	raw, _ := json.Marshal(text) // encoding a string cannot fail
	return string(raw[1 : len(raw)-1])
}

// inBase64 returns the base64 characters that are determined by text alone, for each alignment within a longer text,
// and those for text at the end.
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
