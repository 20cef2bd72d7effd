package fs

import "bytes"

// hiddenLine replaces a line of a private key. A single line does not show that it belongs to a key, so tools that
// return lines redact them; a whole key in other output is recognized by its first line.
const hiddenLine = "[REDACTED:private_key]"

// keyBlock finds the lines of private keys in PEM while it reads a file line by line.
type keyBlock struct{ inside bool }

// contains reports whether the next line lies between the first and the last line of a private key.
func (b *keyBlock) contains(line []byte) bool {
	switch {
	case bytes.Contains(line, []byte("-----END ")):
		b.inside = false
	case b.inside:
		return true
	case bytes.HasPrefix(line, []byte("-----BEGIN ")):
		b.inside = bytes.Contains(line, []byte("PRIVATE KEY"))
	}
	return false
}

// insideKey reports whether the text after before, the known beginning of a file, belongs to a private key.
func insideKey(before []byte) bool {
	const farthest = 8 << 10
	before = before[max(0, len(before)-farthest):]
	begin := bytes.LastIndex(before, []byte("-----BEGIN "))
	if begin < 0 || begin > 0 && before[begin-1] != '\n' {
		return false
	}
	label, body, found := bytes.Cut(before[begin:], []byte("\n"))
	return found && bytes.Contains(label, []byte("PRIVATE KEY")) && !bytes.Contains(body, []byte("-----END "))
}
