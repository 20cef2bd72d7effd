package fs

import "bytes"

// hiddenLine replaces a line of a private key. Tools that return single lines must redact them, because a single line
// is not recognizable as part of a key. In other output a whole key is recognized by its first line.
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

// insideKey reports whether a line belongs to a private key. before is the text that precedes the line; only the last 8
// KiB of it are searched.
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
