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

// metaCall is the field of _meta with the call that a request of the server belongs to. orch itself adds it.
const metaCall = "orch/call"

// taggedStream is the stream of answers to one request. Requests of the server on it belong to the call of that request, which
// the SDK does not report; so taggedStream adds the call to them.
type taggedStream struct {
	io.Closer

	lines *bufio.Reader
	token string
	rest  []byte
	err   error
}

// tagStream wraps the stream of answers to the request of a call.
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

// withCall returns a line of a stream, with the token of the call added if it is a request of the server.
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
