package rest

import (
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// UploadPart is how long a client may take to send each part (api.ImportPart) of the body of an import.
const UploadPart = 45 * time.Second

// importOf is the request of POST /import, without its body.
type importOf struct {
	// Key is the public key that must have signed the file, in base64; empty for any.
	Key string `json:"key,omitempty"`
	// Restore permits tasks that retention has removed from the node.
	Restore bool `json:"restore,omitempty"`
}

// writeImport answers POST /import. It passes the body on in parts, so that it holds one part in memory.
func (s *Server) writeImport(x *exchange, in any) error {
	r, ok := in.(*importOf)
	if !ok {
		return fault.New(fault.Internal, "a request has the wrong type")
	}
	if kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err != nil || kind != exportType {
		return errMediaType(exportType)
	}
	if x.r.ContentLength < 0 {
		return errLength()
	}
	body := &upload{Reader: x.r.Body, control: http.NewResponseController(x.w)}
	reply, err := api.SendImport(x.r.Context(), x.api, body, api.ImportRequest{
		File: x.id, Size: x.r.ContentLength, Key: r.Key, Restore: r.Restore, Actor: x.client.Name(), Wait: s.cfg.KeepAlive,
	})
	switch {
	case err != nil && x.r.ContentLength > 0 && fault.From(err).Reason == reasonTooLarge:
		return &statusError{http.StatusRequestEntityTooLarge, fault.From(err)}
	case err != nil:
		return err
	}
	writeJSON(x.w, http.StatusOK, reply)
	return nil
}

// upload is a body that may take long as a whole, but not for one part.
type upload struct {
	io.Reader

	control *http.ResponseController
	// left is how many bytes may be read until the next extension of the deadline.
	left int
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if u.left <= 0 {
		_ = u.control.SetReadDeadline(time.Now().Add(UploadPart)) // without deadlines, as in tests of handlers, there is none to extend
		u.left = api.ImportPart
	}
	n, err := u.Reader.Read(p)
	u.left -= n
	return n, err
}
