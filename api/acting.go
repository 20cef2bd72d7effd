package api

// The requests that say who acts. A face that knows that by a credential fills the fields in, and lets no request name
// somebody else. FindRequest is none of them: its Actor only says whose newest task is meant.

// Acting returns the field that names who acts.
func (r *SubmitRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *CancelRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *PauseRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *RetryRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *RedriveRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *SignalRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *ResolveRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *CallRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *DecideRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *AnswerRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the field that names who acts.
func (r *CheckpointRequest) Acting() []*string { return []*string{&r.Actor} }

// Acting returns the fields that name who acts.
func (r *SubmitBatchRequest) Acting() []*string {
	fields := make([]*string, len(r.Tasks))
	for i := range r.Tasks {
		fields[i] = &r.Tasks[i].Actor
	}
	return fields
}
