package db

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// table collects the rows of a result within limits.
type table struct {
	maxRows, maxBytes int

	columns   []string
	rows      [][]json.RawMessage
	size      int
	truncated bool
}

// add adds a row and reports whether it fits. After a row that does not fit, all following rows are dropped, too.
func (t *table) add(row []json.RawMessage) bool {
	size := 2
	for _, cell := range row {
		size += len(cell) + 1
	}
	if t.truncated || len(t.rows) >= t.maxRows || t.size+size > t.maxBytes {
		t.truncated = true
		return false
	}
	t.size += size
	t.rows = append(t.rows, row)
	return true
}

// null returns the cell of NULL.
func null() json.RawMessage { return json.RawMessage("null") }

// str returns a JSON string. Invalid UTF-8 is replaced.
func str(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return json.RawMessage(strconv.QuoteToASCII(s)) // cannot happen: every string can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// num returns a JSON number with the digits of s, or a string for values such as NaN that are not JSON numbers.
func num(s string) json.RawMessage {
	if s != "" && strings.IndexByte("-0123456789", s[0]) >= 0 && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return str(s)
}

func float(f float64, bits int) json.RawMessage {
	switch {
	case math.IsInf(f, 1):
		return str("Infinity")
	case math.IsInf(f, -1):
		return str("-Infinity")
	}
	return num(strconv.FormatFloat(f, 'g', -1, bits))
}

// blob returns the bytes in base64.
func blob(b []byte) json.RawMessage {
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(b) + `"`)
}

// timestamp converts "2006-01-02 15:04:05.999" to RFC 3339 and appends zone. It returns values in any other form, such
// as infinity, unchanged.
func timestamp(s, zone string) json.RawMessage {
	if len(s) < 19 || s[4] != '-' || s[10] != ' ' || strings.HasPrefix(s, "0000-00-00") || strings.HasSuffix(s, " BC") {
		return str(s)
	}
	return str(s[:10] + "T" + s[11:] + zone)
}
