package registry

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// metaCall is the field of _meta with the token of the call that a request of the server belongs to. taggedStream adds it.
const metaCall = "orch/call"

// taggedStream is the response stream of one client request. The server may send its own requests on it (elicitation, sampling).
// The SDK does not report to which call they belong, so taggedStream adds the token of the call to their _meta.
type taggedStream struct {
	io.Closer

	lines *bufio.Reader
	token string
	// rest is the part of the current line that Read has not returned.
	rest []byte
	err  error
}

// tagStream returns a taggedStream for the response to a call.
func tagStream(body io.ReadCloser, token string) io.ReadCloser {
	return &taggedStream{Closer: body, lines: bufio.NewReader(body), token: token}
}

// Read implements io.Reader.
func (m *taggedStream) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		var line []byte
		line, m.err = m.line()
		m.rest = withCall(line, m.token)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads a line, up to the size limit of an event.
func (m *taggedStream) line() ([]byte, error) {
	var line []byte
	for {
		part, err := m.lines.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxBody {
			return line, errors.New("an event has more than " + strconv.Itoa(maxBody>>20) + " MiB")
		}
	}
}

// withCall adds the token of the call to a line of a stream that is a request of the server. It returns other lines unchanged.
func withCall(line []byte, token string) []byte {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || !bytes.Contains(data, []byte(methodElicit)) && !bytes.Contains(data, []byte(methodSample)) {
		return line
	}
	msg, err := jsonrpc.DecodeMessage(bytes.TrimSpace(data))
	req, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok || req.Method != methodElicit && req.Method != methodSample {
		return line
	}
	var params, meta map[string]json.RawMessage
	if json.Unmarshal(req.Params, &params) != nil || params == nil ||
		params["_meta"] != nil && json.Unmarshal(params["_meta"], &meta) != nil {
		return line
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[metaCall] = json.RawMessage(strconv.Quote(token))
	if params["_meta"], err = json.Marshal(meta); err != nil {
		return line
	}
	if req.Params, err = json.Marshal(params); err != nil {
		return line
	}
	whole, err := jsonrpc.EncodeMessage(req)
	if err != nil {
		return line
	}
	return append(append([]byte("data: "), whole...), '\n')
}
