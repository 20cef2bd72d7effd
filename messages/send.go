package messages

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// System is the sender of the service's own messages.
const System = "system:messages"

// Send implements Broker.
func (s *Service) Send(ctx context.Context, who string, d Draft) (Receipt, error) {
	if err := CheckIdentity(who); err != nil {
		return Receipt{}, err
	}
	digest := d.digest()
	if d.Key != "" {
		if r, found, err := s.findByKey(ctx, who, d.Key, digest); found || err != nil {
			return r, err
		}
	}
	if err := s.fillReply(ctx, who, &d); err != nil {
		return Receipt{}, err
	}
	m, err := d.Message(who, s.cfg.Now())
	if err != nil {
		return Receipt{}, err
	}
	m.Digest = digest
	if rule, found := s.cfg.FindSecret(scannedText(&m)); found {
		return Receipt{}, fault.New(fault.SecretDetected, "the message holds what looks like a secret (%s)", rule).WithField("payload").
			WithHint("keep the secret out of it and refer to it, for example by an environment variable")
	}
	displaced, err := s.store(ctx, &m)
	if d.Key != "" && fault.Has(err, fault.Conflict) { // a concurrent request sent it
		r, _, err := s.findByKey(ctx, who, d.Key, digest)
		return r, err
	}
	if err != nil {
		return Receipt{}, err
	}
	r := receipt(&m)
	r.Displaced, r.Unknown = displaced, s.unknownRecipients(ctx, &m)
	return r, s.cfg.Store.Sync()
}

// scannedText returns the free-form parts of a message, which are scanned for secrets.
func scannedText(m *Message) []byte {
	return slices.Concat(m.Payload, []byte("\n"+m.Correlation+"\n"+m.Type))
}

func receipt(m *Message) Receipt {
	return Receipt{ID: m.ID, At: m.At, ExpiresAt: m.ExpiresAt, To: m.To, Correlation: cmp.Or(m.Correlation, m.ID)}
}

// findByKey returns the receipt of the message that who has sent under a key. It returns CONFLICT if the content
// differs.
func (s *Service) findByKey(ctx context.Context, who, key, digest string) (Receipt, bool, error) {
	r, err := s.cfg.Store.Read(ctx, events.KeyedMessageID(who+"\x00"+key))
	if fault.Has(err, fault.NotFound) {
		return Receipt{}, false, nil
	}
	if err != nil {
		return Receipt{}, false, err
	}
	if r.Message.Digest != digest {
		return Receipt{}, false, fault.New(fault.Conflict, "the key stands for another message, %s", r.Message.ID).WithField("key").
			WithHint("use another key for another message")
	}
	known := receipt(r.Message)
	known.Existing = true
	return known, true, s.cfg.Store.Sync() // a concurrent request may just have stored it
}

// fillReply sets the default recipient and conversation of a reply.
func (s *Service) fillReply(ctx context.Context, who string, d *Draft) error {
	if d.ReplyTo == "" || !events.IsMessageID(d.ReplyTo) {
		return nil
	}
	unknown := fault.New(fault.NotFound, "there is no message %s for %s", d.ReplyTo, who).WithField("reply_to").
		WithHint("name the recipients and the correlation id instead; a message is forgotten when it expires")
	r, err := s.cfg.Store.Read(ctx, d.ReplyTo)
	if fault.Has(err, fault.NotFound) {
		return unknown
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	in := func(group string) bool { _, is := s.projection.members[group][who]; return is }
	mine := r.Message.IsFor(who, in) || r.Message.Sender == who
	s.mu.Unlock()
	if !mine || !r.Message.Alive(s.cfg.Now()) {
		return unknown
	}
	if len(d.To) == 0 {
		d.To = []string{r.Message.Sender}
	}
	if d.Correlation == "" {
		d.Correlation = cmp.Or(r.Message.Correlation, r.Message.ID)
	}
	return nil
}

// store stores a message, displacing others if necessary, and returns the ids of displaced messages.
func (s *Service) store(ctx context.Context, m *Message) ([]string, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	displaced, err := s.admit(m)
	if err != nil {
		return nil, err
	}
	if err := s.write(ctx, Record{Kind: Sent, Message: m, TTL: m.ExpiresAt.Sub(s.cfg.Now())}); err != nil {
		return nil, err
	}
	var ids []string
	for _, v := range displaced {
		if err := s.displace(ctx, v, m); err != nil {
			return ids, err
		}
		ids = append(ids, v.it.ID)
	}
	return distinct(ids), nil
}

// displacement is a message to remove from the queue of an address.
type displacement struct {
	it      *item
	address string
}

// admit checks whether there is room for a message, and returns the messages that it must displace. If a queue is full
// and m is more urgent than its least urgent messages, the oldest of these is displaced. If m is not more urgent, admit
// returns QUOTA_EXCEEDED and changes nothing.
func (s *Service) admit(m *Message) ([]displacement, error) {
	size := m.Size() // encode before locking
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.cfg.Now(); s.crowded(m, size) {
		s.swept = now
		s.projection.Expire(now)
	}
	if len(s.projection.items) >= s.cfg.Messages || s.projection.bytes+size > s.cfg.Bytes {
		return nil, fault.New(fault.QuotaExceeded, "there are %d messages of %d bytes, and that is the limit", len(s.projection.items), s.projection.bytes).
			WithHint("messages end when they are acknowledged, or expire")
	}
	var displaced []displacement
	for _, to := range m.To {
		if s.projection.queued(to) < s.cfg.Queue {
			continue
		}
		it := s.projection.leastUrgent(to, m.Priority)
		if it == nil {
			return nil, fault.New(fault.QuotaExceeded, "%d messages wait for %s, and none is less urgent", s.cfg.Queue, to).WithField("to").
				WithHint("wait until some are acknowledged or expire, or send it with a higher priority")
		}
		displaced = append(displaced, displacement{it, to})
	}
	return displaced, nil
}

// crowded reports whether the store, or a queue for the message, is full.
func (s *Service) crowded(m *Message, size int) bool {
	return len(s.projection.items) >= s.cfg.Messages || s.projection.bytes+size > s.cfg.Bytes ||
		slices.ContainsFunc(m.To, func(to string) bool { return s.projection.queued(to) >= s.cfg.Queue })
}

// displace removes a message from an address and notifies its sender.
func (s *Service) displace(ctx context.Context, v displacement, by *Message) error {
	now := s.cfg.Now()
	s.mu.Lock()
	r := s.doneRecord(v.it, now)
	if v.address != All && !IsGroup(v.address) {
		r = s.recipientDoneRecord(v.it, v.address, now)
	}
	s.mu.Unlock()
	if err := s.write(ctx, r); err != nil {
		return err
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "message_displaced", slog.String("message", v.it.ID), slog.String("recipient", v.address), slog.String("by", by.ID))
	if err := s.notifySender(ctx, v, now); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "displacement_not_told", slog.String("message", v.it.ID), slog.Any("error", err))
	}
	return nil
}

// notifySender sends a notification about a displaced message to its sender. The notification itself displaces nothing.
func (s *Service) notifySender(ctx context.Context, v displacement, now time.Time) error {
	if !isIdentity(v.it.Sender) { // a message of the service itself
		return nil
	}
	text, err := json.Marshal(map[string]string{
		"error": string(fault.QuotaExceeded), "message": v.it.ID, "recipient": v.address,
		"text": "the inbox was full, and the message made room for a more urgent one",
	})
	if err != nil {
		return err
	}
	d := Draft{To: []string{v.it.Sender}, Type: "error", Correlation: cmp.Or(v.it.Correlation, v.it.ID), ReplyTo: v.it.ID, Payload: text}
	m, err := d.Message(System, now)
	if err != nil {
		return err
	}
	if displaced, err := s.admit(&m); err != nil || len(displaced) > 0 {
		return cmp.Or(err, error(fault.New(fault.QuotaExceeded, "the inbox of %s is full", v.it.Sender)))
	}
	return s.write(ctx, Record{Kind: Sent, Message: &m, TTL: m.ExpiresAt.Sub(now)})
}

// unknownRecipients returns the recipients that are not known identities, and the groups without members. Without
// Config.Members it returns only groups.
func (s *Service) unknownRecipients(ctx context.Context, m *Message) []string {
	var all []string
	checked := s.cfg.Members != nil && slices.ContainsFunc(m.To, isIdentity)
	if checked {
		all = s.cfg.Members(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown []string
	for _, to := range m.To {
		_, isMember := s.projection.groups[to]
		switch {
		case to == All:
		case IsGroup(to) && len(s.projection.members[to]) == 0:
			unknown = append(unknown, to)
		case !IsGroup(to) && checked && !isMember && !slices.Contains(all, to):
			unknown = append(unknown, to)
		}
	}
	return unknown
}
