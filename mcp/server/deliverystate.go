package server

import "slices"

// streamNo names a stream to a client for as long as the process lives; 0 is none.
type streamNo uint64

// deliveryState is what decides where the open questions of one task go now, for one session of 2025-11-25.
type deliveryState struct {
	// open are the questions that the client may be asked, the oldest first.
	open []string
	// requests are the streams of requests that wait for the task, the newest last. standing is the stream of the session, 0 for
	// none. Somebody reads all of them.
	requests []streamNo
	standing streamNo
	// knowsTask is true when the client knows of the task that it asks. Before, it has no handle for what comes on the standing stream.
	knowsTask bool
	// sent says on which stream a question was handed over, the last time.
	sent map[string]streamNo
	// declined are the questions that the user has put away, or that the client cannot show: they were asked and decide nothing.
	declined map[string]bool
	// accepted are the questions whose answer was taken since it was read which are open: they may be open no more.
	accepted map[string]bool
}

// delivery is a question that goes to a stream.
type delivery struct {
	question string
	to       streamNo
}

// plan says what is to be sent, and which questions that were handed over are to be withdrawn because they are settled. A question
// is in the hands of the client as long as the stream is read on which it was handed over, and goes to no other meanwhile.
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

// target is the stream on which a question goes out: that of the newest request that waits for it, else the standing one.
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

// isOpen reports whether somebody reads a stream.
func (s deliveryState) isOpen(no streamNo) bool {
	return no != 0 && (no == s.standing || slices.Contains(s.requests, no))
}

// idle reports whether nothing will come of asking any more: all that is open was put away.
func (s deliveryState) idle() bool {
	return !slices.ContainsFunc(s.open, func(question string) bool { return !s.declined[question] })
}
