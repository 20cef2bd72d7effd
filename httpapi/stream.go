package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/sse"
)

// acceptsStream reports whether a request accepts server-sent events.
func acceptsStream(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(accepted)
			quality, bad := strconv.ParseFloat(params["q"], 64)
			if err == nil && kind == sse.MediaType && (bad != nil || quality > 0) {
				return true
			}
		}
	}
	return false
}

// listen answers a message with a stream: the first event is the answer, all further events are notifications. The stream does not
// count as a request after the call, because subscriptions have their own limit.
func (e *endpoint) listen(w http.ResponseWriter, r *http.Request, v clientRequest, m request, c Call) {
	begin := time.Now()
	reply, listener, err := v.client.Listen(r.Context(), c)
	e.logRequest(r.Context(), v, m, reply, time.Since(begin), err)
	if listener != nil {
		defer listener.Close()
	}
	v.release()
	text, _ := e.answer(m, v.id, reply, err).text()
	text[len(text)-1] = bytes.TrimSpace(text[len(text)-1])
	out := sse.Start(w)
	if sendEvent(out, text...) != nil || listener == nil {
		return
	}
	count, why := e.follow(r.Context(), out, listener)
	e.cfg.Logger.LogAttrs(r.Context(), slog.LevelInfo, "rpc_stream_ended",
		slog.String("request_id", v.id), slog.String("client", v.client.Name()), slog.Int("events", count), slog.Duration("took", time.Since(begin)),
		slog.String("reason", why))
}

// follow sends the messages of a listener until the listener or the request ends. It returns the number of events, and the reason of
// the end.
func (e *endpoint) follow(ctx context.Context, out *sse.Writer, from Listener) (count int, why string) {
	for ctx.Err() == nil {
		waiting, stop := context.WithTimeout(ctx, e.cfg.KeepAlive)
		messages, err := from.Next(waiting)
		quiet := waiting.Err() != nil && len(messages) == 0
		stop()
		if errors.Is(err, io.EOF) {
			return count, "the subscription has ended"
		}
		if err != nil { // do not retry, which would fail again; returning ends the subscription
			return count, fault.From(err).Message
		}
		for _, m := range messages {
			if err := sendEvent(out, m...); err != nil {
				return count, "the client does not read"
			}
			count++
		}
		if quiet && out.Comment() != nil {
			return count, "the client does not read"
		}
	}
	return count, "the request has ended"
}

// sendEvent sends a message, which must be one line. The message is the concatenation of parts.
func sendEvent(out *sse.Writer, parts ...[]byte) error {
	if err := out.Write(slices.Concat([][]byte{[]byte("event: message\ndata: ")}, parts, [][]byte{[]byte("\n\n")})...); err != nil {
		return err
	}
	return out.Flush()
}
