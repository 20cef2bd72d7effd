package server

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxEdge is how many bytes of the beginning and of the end of a line longer than MaxLine are kept: its id is there.
const maxEdge = 4 << 10

// refuseLong answers a message that is longer than MaxLine. An answer to a question counts as one that is not accepted.
func (c *stdioConn) refuseLong(l line) error {
	p := envelope{ID: idOfLong(l.data, l.tail)}
	if c.handleReply(p) {
		return nil
	}
	return c.send(refusal(p.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message is longer than 16 MiB"}))
}

// lastID is an id that is the last field of a message, or the last one before its version.
var lastID = regexp.MustCompile(`,\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// idOfLong returns the id of a message of which only the beginning and the end are known; nil if it has none there.
func idOfLong(beginning, end []byte) json.RawMessage {
	fields := json.NewDecoder(bytes.NewReader(beginning))
	if begin, err := fields.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}
	for {
		name, err := fields.Token()
		var value json.RawMessage
		if err != nil || fields.Decode(&value) != nil { // the value has more than the beginning
			break
		}
		if name == "id" {
			return validID(value)
		}
	}
	if found := lastID.FindSubmatch(end); found != nil {
		return validID(found[1])
	}
	return nil
}

// validID returns an id; nil if it is none.
func validID(id []byte) json.RawMessage {
	if !isID(id) || !json.Valid(id) || !utf8.Valid(id) {
		return nil
	}
	return id
}
