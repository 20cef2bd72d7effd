package api

import (
	"context"
	"io"
	"time"
)

// ExportReader is an export file that a node sends part by part. It implements io.Reader.
type ExportReader struct {
	ctx  context.Context //nolint:containedctx // of the requests that Read makes
	node Exporter
	next ExportRequest
	data []byte
	done bool
	err  error
}

// Exporter sends export files.
type Exporter interface {
	Export(ctx context.Context, r ExportRequest) (ExportReply, error)
}

// exportWait is how long one request waits for more of a file.
const exportWait = 10 * time.Second

// NewExportReader returns a reader of the file that a request asks for.
func NewExportReader(ctx context.Context, node Exporter, r ExportRequest) *ExportReader {
	r.Wait = exportWait
	return &ExportReader{ctx: ctx, node: node, next: r}
}

// Err returns the error of a request, which whoever reads may have taken for damage of the file.
func (p *ExportReader) Err() error { return p.err }

// Read implements io.Reader.
func (p *ExportReader) Read(b []byte) (int, error) {
	for len(p.data) == 0 {
		if p.done {
			return 0, io.EOF
		}
		r, err := p.node.Export(p.ctx, p.next)
		if err != nil {
			p.err = err
			return 0, err
		}
		p.data, p.done = r.Data, r.Done
		p.next = ExportRequest{File: r.File, Offset: p.next.Offset + int64(len(r.Data)), Once: p.next.Once, Wait: exportWait}
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}
