package bus

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// pageCount and pageBytes limit one answer of the server to a reader.
	pageCount = 2000
	pageBytes = 4 << 20
	// readWithin is how long one page may take unless the caller has an earlier deadline.
	readWithin = 20 * time.Second
)

// entry is one message of a stream.
type entry struct {
	events.Stored
	subject string
	header  nats.Header
	// pending is the server's count of messages after this one.
	pending string
	// packed is set for a commit that was stored compressed. damage is not nil if it cannot be read; Data is then as it is stored.
	packed bool
	damage error
}

// newEntry returns a message that was read from the store. It unpacks a commit of the live log.
func (c *Conn) newEntry(seq uint64, subject string, header nats.Header, data []byte, pending string) entry {
	e := entry{Stored: events.Stored{Seq: seq, Data: data}, subject: subject, header: header, pending: pending}
	if !isPacked(data) || !strings.HasPrefix(subject, liveRoot+".") {
		return e
	}
	e.packed = true
	commit, err := unpackCommit(data, max(c.maxCommit(), MaxPayload))
	if err != nil {
		e.damage = fault.Wrap(fault.DataLoss, err, "the commit at position "+strconv.FormatUint(seq, 10)+" of task "+string(taskOf(subject))+" cannot be read").
			WithHint("run: orch verify")
		return e
	}
	e.Data = commit
	return e
}

// getRequest requests messages, starting at a position, directly from the store, without a consumer.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
	// Newest selects the newest message of each of these subjects instead.
	Newest []string `json:"multi_last,omitempty"`
}

// page returns up to count messages of a stream with a matching subject, starting at position from. It returns an empty
// page at the end of the stream.
func (c *Conn) page(ctx context.Context, stream, subject string, from uint64, count int) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	page, err := c.pageFromAnyServer(ctx, stream, subject, from, count)
	if err != nil || !c.replicated.Load() {
		return page, err
	}
	if n := len(page); n > 0 {
		last := &page[n-1]
		if last.pending == "0" {
			last.pending = moreMayFollow
		}
		if last.pending != moreMayFollow || n == count {
			return page, nil
		}
		from = last.Seq + 1
	}
	next, err := c.leaderNext(ctx, stream, subject, from)
	if next != nil {
		page = append(page, *next)
	}
	return page, err
}

// answerWithin is how long one of several servers may take to answer. A server that is stopping or starting may never answer.
const answerWithin = 3 * time.Second

// retry calls send. It calls send again if the connection breaks, because the answer is then lost, and, if there are several
// servers, after each try that takes longer than answerWithin, until ctx ends. ctx must have a deadline.
func (c *Conn) retry(ctx context.Context, send func(context.Context) error) error {
	for {
		try, cancel := c.try(ctx)
		err := send(try)
		lost := try.Err() != nil
		cancel()
		if err == nil || !lost || ctx.Err() != nil {
			return err
		}
		if !c.connects(ctx) {
			return readFault(nats.ErrDisconnected)
		}
	}
}

// connects waits until the client is connected again; false if that takes longer than answerWithin, or if ctx ends.
func (c *Conn) connects(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for !c.nc.IsConnected() {
		if pause.For(ctx, reconnectWait/10) != nil {
			return false
		}
	}
	return true
}

// try returns the context of one try of retry. It ends when the connection breaks.
func (c *Conn) try(ctx context.Context) (try context.Context, cancel func()) {
	within := answerWithin
	if !c.replicated.Load() {
		within = readWithin
	}
	try, end := context.WithTimeout(ctx, within)
	stop := c.link.onLoss(end)
	return try, func() {
		stop()
		end()
	}
}

// pageFromAnyServer is like Conn.page, but any server that has the stream may answer. Its messages are correct; the newest
// ones may be missing.
func (c *Conn) pageFromAnyServer(ctx context.Context, stream, subject string, from uint64, count int) (page []entry, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		page, err = c.requestPage(ctx, stream, subject, from, count)
		return err
	})
	return page, err
}

// requestPage sends one request for a page and collects the reply.
func (c *Conn) requestPage(ctx context.Context, stream, subject string, from uint64, count int) ([]entry, error) {
	request, err := json.Marshal(getRequest{Seq: max(from, 1), Next: subject, Batch: count, MaxBytes: pageBytes})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a read request cannot be encoded")
	}
	sub, err := c.inboxes.take(c.nc)
	if err != nil {
		return nil, readFault(err)
	}
	if err := c.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, request); err != nil {
		discard(sub)
		return nil, readFault(err)
	}
	page, ended, err := c.collect(ctx, sub)
	if ended {
		c.inboxes.put(sub)
	} else {
		discard(sub)
	}
	return page, err
}

// next returns the first message of a stream with a matching subject, starting at position from; nil if there is none. It
// costs less than a page of one message, for which the server also counts the messages that follow. For the server, a
// message that it cannot read is none.
func (c *Conn) next(ctx context.Context, stream, subject string, from uint64) (*entry, error) {
	if c.replicated.Load() {
		return c.leaderNext(ctx, stream, subject, from)
	}
	m, err := c.requestRead(ctx, "$JS.API.DIRECT.GET."+stream, getRequest{Seq: max(from, 1), Next: subject})
	if err != nil {
		return nil, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		e, err := c.decodeEntry(m)
		return &e, err
	case "404":
		return nil, nil //nolint:nilnil // nil means that no message matches
	default:
		return nil, readFault(errors.New(status + " " + m.Header.Get("Description")))
	}
}

// none reports that a stream has no message with any of the subjects. It reports false if that cannot be told with one request: one of
// several servers may lack the newest messages.
func (c *Conn) none(ctx context.Context, stream string, subjects ...string) (bool, error) {
	if c.replicated.Load() {
		return false, nil
	}
	m, err := c.requestRead(ctx, "$JS.API.DIRECT.GET."+stream, getRequest{Newest: subjects, Batch: 1})
	if err != nil {
		return false, err
	}
	return m.Header.Get("Status") == "404" && m.Header.Get("Description") == "No Results", nil
}

// collect receives messages until the server marks the end of the page. ended reports whether it has done so.
func (c *Conn) collect(ctx context.Context, sub *nats.Subscription) (page []entry, ended bool, err error) {
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, readFault(err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			e, err := c.decodeEntry(m)
			if err != nil {
				return nil, false, err
			}
			page = append(page, e)
		case "204", "404":
			return page, true, nil
		case "503":
			return nil, false, readFault(nats.ErrNoResponders)
		default:
			return nil, false, readFault(errors.New(status + " " + m.Header.Get("Description")))
		}
	}
}

// moreMayFollow is the pending count of an entry if the server sends none, or if its count of 0 may be out of date because the
// stream is replicated.
const moreMayFollow = "?"

// leaderNext returns the first message with a matching subject, starting at position from; nil if there is none. It
// asks the leader of the replicated stream, because the other servers may lag behind the leader.
func (c *Conn) leaderNext(ctx context.Context, stream, subject string, from uint64) (*entry, error) {
	if subject == "" {
		subject = ">"
	}
	return c.requestLeader(ctx, stream, map[string]any{"seq": max(from, 1), "next_by_subj": subject})
}

// newest returns the newest message of a subject; nil if there is none.
func (c *Conn) newest(ctx context.Context, stream jetstream.Stream, subject string) (*entry, error) {
	if c.replicated.Load() {
		return c.requestLeader(ctx, stream.CachedInfo().Config.Name, map[string]any{"last_by_subj": subject})
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var m *jetstream.RawStreamMsg
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		m, err = stream.GetLastMsgForSubject(ctx, subject)
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil //nolint:nilnil // nil means that the subject has no message
	}
	if err != nil {
		return nil, err
	}
	e := c.newEntry(m.Sequence, m.Subject, m.Header, m.Data, "")
	return &e, nil
}

// requestRead sends a query to the server and returns the answer. Errors: those of readFault.
func (c *Conn) requestRead(ctx context.Context, subject string, query any) (m *nats.Msg, err error) {
	data, err := json.Marshal(query)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a read request cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	err = c.retry(ctx, func(ctx context.Context) error {
		m, err = c.nc.RequestWithContext(ctx, subject, data)
		return err
	})
	if err != nil {
		return nil, readFault(err)
	}
	return m, nil
}

// info returns the state of a stream. Errors: those of readFault.
func (c *Conn) info(ctx context.Context, stream jetstream.Stream) (info *jetstream.StreamInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	err = c.retry(ctx, func(ctx context.Context) error {
		info, err = stream.Info(ctx)
		return err
	})
	if err != nil {
		return nil, readFault(err)
	}
	return info, nil
}

// requestLeader returns the message of a stream that a query selects; nil if there is none.
func (c *Conn) requestLeader(ctx context.Context, stream string, query map[string]any) (*entry, error) {
	m, err := c.requestRead(ctx, "$JS.API.STREAM.MSG.GET."+stream, query)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Header  []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return nil, readFault(err)
	}
	switch got := answer.Message; {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil //nolint:nilnil // nil means that no message matches
	case answer.Error != nil:
		return nil, readFault(answer.Error)
	case got == nil:
		return nil, readFault(errors.New("the answer has no message"))
	default:
		header, err := nats.DecodeHeadersMsg(got.Header)
		if len(got.Header) == 0 {
			header, err = nats.Header{}, nil
		}
		if err != nil {
			return nil, readFault(err)
		}
		e := c.newEntry(got.Seq, got.Subject, header, got.Data, moreMayFollow)
		return &e, nil
	}
}

func (c *Conn) decodeEntry(m *nats.Msg) (entry, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return entry{}, readFault(err)
	}
	return c.newEntry(seq, m.Header.Get("Nats-Subject"), m.Header, m.Data, m.Header.Get("Nats-Num-Pending")), nil
}

func readFault(err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.From(err)
	}
	if errors.Is(err, context.DeadlineExceeded) { // the server does not answer for a block that it cannot read
		return fault.Wrap(fault.Unavailable, err, "the log does not answer").
			WithHint("try again in a moment; if it stays so, check the store with: orch verify")
	}
	return fault.Wrap(fault.Unavailable, err, "the log cannot be reached now").WithHint("try again in a moment")
}

// errHole returns the error of walk for a message that the server counts but cannot read.
func errHole(after uint64) *fault.Error {
	return fault.New(fault.DataLoss, "a commit after position %d cannot be read", after).WithHint("run: orch verify")
}

// walk yields the messages of a stream on a subject with positions in [from, to]. It fetches the next page while the
// caller uses the last quarter of the current one. The pages grow: most readers of a long history stop after some hundred
// commits.
func (c *Conn) walk(ctx context.Context, stream, subject string, from, to uint64) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		if from > to {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		count := pageCount / 10
		next := c.prefetch(ctx, stream, subject, from, count)
		defer func() { cancel(); <-next }()
		for pending := ""; ; {
			got := <-next
			if got.err != nil {
				yield(entry{}, got.err)
				return
			}
			if len(got.page) == 0 {
				if pending != "" && pending != moreMayFollow && !c.isLast(ctx, stream, subject, from-1) {
					yield(entry{}, errHole(from-1))
				}
				return
			}
			last := &got.page[len(got.page)-1]
			pending, from = last.pending, last.Seq+1
			ends := pending == "0" || pending == "" || from > to
			count = min(count*4, pageCount)
			for i, e := range got.page {
				if i == len(got.page)*3/4 && !ends {
					next = c.prefetch(ctx, stream, subject, from, count)
				}
				if e.Seq > to || !yield(e, nil) {
					return
				}
			}
			if ends {
				return
			}
		}
	}
}

// isLast reports whether a message is the last one on a subject now. After it, there may have been messages that were removed meanwhile,
// such as those of a task that was archived.
func (c *Conn) isLast(ctx context.Context, stream, subject string, seq uint64) bool {
	page, err := c.page(ctx, stream, subject, seq, 1)
	return err == nil && len(page) > 0 && page[0].Seq == seq && page[0].pending == "0"
}

// fetched is the result of a request for a page.
type fetched struct {
	page []entry
	err  error
}

// prefetch requests a page in the background. The channel receives the result and is then closed.
func (c *Conn) prefetch(ctx context.Context, stream, subject string, from uint64, count int) <-chan fetched {
	answer := make(chan fetched, 1)
	go func() {
		defer close(answer)
		page, err := c.page(ctx, stream, subject, from, count)
		answer <- fetched{page, err}
	}()
	return answer
}

// nextCommit returns the first live commit of a task after a position; false if there is none.
func (b *streams) nextCommit(ctx context.Context, task events.TaskID, after uint64) (events.Stored, bool, error) {
	page, err := b.conn.page(ctx, liveStream, liveSubject(task), after+1, 1)
	if err != nil || len(page) == 0 {
		return events.Stored{}, false, err
	}
	return page[0].Stored, page[0].damage == nil, page[0].damage
}
