package server

import "slices"

// streamNo identifies a stream to a client while the process lives; 0 is none.
type streamNo uint64

// deliveryState is the input of the decision on which streams the open questions of a task go, for one session of 2025-11-25.
type deliveryState struct {
	// open are the questions that the client may answer, the oldest first.
	open []string
	// requests are the streams of requests that wait for the task, the newest last. standing is the stream of the session, 0 for
	// none. All of them are open.
	requests []streamNo
	standing streamNo
	// knowsTask is set if the client knows that the task asks. Before that it has no handle for messages on the standing stream.
	knowsTask bool
	// sent is the last stream on which each question was sent.
	sent map[string]streamNo
	// declined are the questions that the user has dismissed, or that the client cannot show: they were asked without a decision.
	declined map[string]bool
	// accepted are the questions whose answer was accepted after open was read: they may no longer be open.
	accepted map[string]bool
}

// delivery is a question to send to a stream.
type delivery struct {
	question string
	to       streamNo
}

// plan returns the questions to send, and the sent questions to withdraw because they are resolved. A question
// stays on the stream on which it was sent while that is open, and is sent to no other.
func (s deliveryState) plan() (send []delivery, withdraw []string) {
	for question := range s.sent {
		if !slices.Contains(s.open, question) {
			withdraw = append(withdraw, question)
		}
	}
	slices.Sort(withdraw)
	to := s.target()
	if to == 0 {
		return nil, withdraw
	}
	for _, question := range s.open {
		if !s.declined[question] && !s.accepted[question] && !s.isOpen(s.sent[question]) {
			send = append(send, delivery{question, to})
		}
	}
	return send, withdraw
}

// target returns the stream for a question: the newest request that waits for it, otherwise the standing stream.
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
