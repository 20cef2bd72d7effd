package fs

import "bytes"

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
