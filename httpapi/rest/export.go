package rest

import (
	"log/slog"
	"net/http"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// exportType is the content type of an export file.
const exportType = "application/octet-stream"

// exportOf is the request of GET /tasks/{id}/export.
type exportOf struct {
	ID events.TaskID `json:"id"`
	// Tree also exports the descendants of the task.
	Tree bool `json:"tree,omitempty"`
}

// writeExport answers GET /tasks/{id}/export with a file. If the export fails after its beginning was sent, the connection breaks, so
// that no client takes a part for the whole.
func (s *Server) writeExport(x *exchange, in any) error {
	r, ok := in.(*exportOf)
	if !ok {
		return fault.New(fault.Internal, "a request has the wrong type")
	}
	next := api.ExportRequest{IDs: []events.TaskID{r.ID}, Tree: r.Tree, Wait: s.cfg.KeepAlive}
	for begun := false; ; {
		reply, err := x.api.Export(x.r.Context(), next)
		if err != nil && !begun {
			return err
		}
		if err != nil {
			s.cfg.Logger.Warn("http_export_failed", slog.String("request_id", x.id), slog.Any("error", err))
			panic(http.ErrAbortHandler)
		}
		if !begun && (len(reply.Data) > 0 || reply.Done) {
			begun = true
			x.w.Header().Set("Content-Type", exportType)
			x.w.Header().Set("Content-Disposition", `attachment; filename="`+string(r.ID)+`.orch"`)
		}
		if begun {
			if _, err := x.w.Write(reply.Data); err != nil || reply.Done {
				return nil //nolint:nilerr // the client has gone
			}
		}
		next = api.ExportRequest{File: reply.File, Offset: next.Offset + int64(len(reply.Data)), Wait: s.cfg.KeepAlive}
	}
}
