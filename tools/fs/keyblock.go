package fs

import "bytes"

// hiddenLine takes the place of a line of a private key. A line by itself does not show what it belongs to, so whoever
// returns lines hides them; a key that is returned as a whole is found by its first line.
const hiddenLine = "[REDACTED:private_key]"

// keyBlock tells which lines of a file, taken one after the other, belong to private keys in PEM.
type keyBlock struct{ inside bool }

// holds reports whether the next line is one between the first and the last line of a key.
func (b *keyBlock) holds(line []byte) bool {
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

// inKey reports whether what follows before, the text of a file as far as it is known, belongs to a private key.
func inKey(before []byte) bool {
	const farthest = 8 << 10
	before = before[max(0, len(before)-farthest):]
	begin := bytes.LastIndex(before, []byte("-----BEGIN "))
	if begin < 0 || begin > 0 && before[begin-1] != '\n' {
		return false
	}
	label, body, found := bytes.Cut(before[begin:], []byte("\n"))
	return found && bytes.Contains(label, []byte("PRIVATE KEY")) && !bytes.Contains(body, []byte("-----END "))
}
