package api

// This file lists the requests that name an actor. A server that authenticates its clients, such as the HTTP server, sets these
// fields, and refuses a request that names a different actor. FindRequest and AuditRequest are not in the list: their Actor only selects
// the submitter of @last, and acts.

// ActorFields returns the field that names who acts.
func (r *SubmitRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *CancelRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *PauseRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *RetryRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *RedriveRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *SignalRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *ResolveRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *CallRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *DecideRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *AnswerRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *CheckpointRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *ImportRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the fields that name who acts.
func (r *SubmitBatchRequest) ActorFields() []*string {
	fields := make([]*string, len(r.Tasks))
	for i := range r.Tasks {
		fields[i] = &r.Tasks[i].Actor
	}
	return fields
}
