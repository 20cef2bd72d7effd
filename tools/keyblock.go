package tools

import "bytes"

// HiddenLine replaces a line of a private key. Tools that return single lines must redact them, because a single line
// is not recognizable as part of a key. In other output a whole key is recognized by its first line.
const HiddenLine = "[REDACTED:private_key]"

// KeyBlock finds the lines of private keys in PEM while a file is read line by line.
type KeyBlock struct{ inside bool }

// Contains reports whether the next line lies between the first and the last line of a private key.
func (b *KeyBlock) Contains(line []byte) bool {
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
