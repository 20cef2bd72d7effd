package server

import (
	"maps"
	"slices"
)

// streamNo identifies a stream to a client within this process; 0 is none.
type streamNo uint64

// deliveryState is the input for choosing the streams on which the open questions of a task are sent, for one session of
// 2025-11-25.
type deliveryState struct {
	// open are the questions that the client may answer, the oldest first.
	open []string
	// requests are the open streams of requests that wait for the task, the newest last.
	requests []streamNo
	// standing is the open stream of the session (its GET request), 0 for none.
	standing streamNo
	// knowsTask is set if the client knows that the task has questions. Before that, nothing is sent on the standing stream.
	knowsTask bool
	// sent is the last stream on which each question was sent.
	sent map[string]streamNo
	// declined are the questions that were asked without a decision: the user has dismissed them, or the client cannot show
	// them.
	declined map[string]bool
	// opened are the approvals whose web pages the user has opened. They are not sent again, and the wait for them goes on.
	opened map[string]bool
	// accepted are the questions that were answered after open was read: they may no longer be open.
	accepted map[string]bool
}

// delivery is a question to send to a stream.
type delivery struct {
	question string
	to       streamNo
}

// plan returns the questions to send, and those sent or opened that are settled. A question is not sent again while the stream
// on which it was sent is open.
func (s deliveryState) plan() (send []delivery, settled []string) {
	settled = slices.Concat(slices.Collect(maps.Keys(s.sent)), slices.Collect(maps.Keys(s.opened)))
	settled = slices.DeleteFunc(settled, func(question string) bool { return slices.Contains(s.open, question) })
	slices.Sort(settled)
	settled = slices.Compact(settled)
	to := s.target()
	if to == 0 {
		return nil, settled
	}
	for _, question := range s.open {
		if !s.declined[question] && !s.opened[question] && !s.accepted[question] && !s.isOpen(s.sent[question]) {
			send = append(send, delivery{question, to})
		}
	}
	return send, settled
}

// target returns the stream for unsent questions: that of the newest request that waits for the task, otherwise the standing
// stream. It returns 0 if there is none.
func (s deliveryState) target() streamNo {
	switch {
	case len(s.requests) > 0:
		return s.requests[len(s.requests)-1]
	case s.knowsTask:
		return s.standing
	default:
		return 0
	}
}

// isOpen reports whether a stream is open.
func (s deliveryState) isOpen(no streamNo) bool {
	return no != 0 && (no == s.standing || slices.Contains(s.requests, no))
}

// idle reports whether asking is pointless: all open questions were declined.
func (s deliveryState) idle() bool {
	return !slices.ContainsFunc(s.open, func(question string) bool { return !s.declined[question] })
}
