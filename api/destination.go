package api

import (
	"context"
	"time"

	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/schedules"
)

// Destinations are the methods about destinations, to which the node delivers signed events of tasks and approvals over HTTP.
type Destinations interface {
	// Destinations returns all destinations, or one, by name. NOT_FOUND for an unknown name.
	Destinations(ctx context.Context, r DestinationsRequest) (DestinationsReply, error)
	// PutDestination creates a destination or replaces its definition. A new one hears of what happens from then on. Errors: CONFLICT if
	// the name is in use and the request does not replace it, FORBIDDEN for an address that is not allowed, and those of
	// destinations.Definition.Check and destinations.CheckSecret.
	PutDestination(ctx context.Context, r PutDestinationRequest) (DestinationView, error)
	// SteerDestination pauses, resumes, tests or deletes a destination, gives it another secret, or delivers its dead letters again.
	// Errors: NOT_FOUND, VALIDATION_ERROR.
	SteerDestination(ctx context.Context, r SteerDestinationRequest) (DestinationView, error)
}

// DestinationsRequest selects destinations.
type DestinationsRequest struct {
	// Name selects one destination; empty selects all.
	Name string `json:"name,omitempty"`
	// Deliveries is the number of deliveries in each list of a view. Default: none.
	Deliveries int `json:"deliveries,omitempty"`
}

// DestinationsReply contains destinations, by name.
type DestinationsReply struct {
	Destinations []DestinationView `json:"destinations"`
}

// PutDestinationRequest defines a destination.
type PutDestinationRequest struct {
	// Name is 1 to 63 of a to z, 0 to 9, '.', '_' and '-'.
	Name       string                  `json:"name"`
	Definition destinations.Definition `json:"definition"`
	// Secret is what deliveries are signed with. Without one, a destination that exists keeps its secret. No answer contains it.
	Secret string `json:"secret,omitempty"`
	// Replace permits to replace the definition of an existing destination. It keeps its pause and its deliveries.
	Replace bool `json:"replace,omitempty"`
	// Paused also pauses the destination.
	Paused bool   `json:"paused,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

// Acts of SteerDestinationRequest beside ActPause, ActResume, ActRotate and ActDelete.
const (
	// ActRedeliver makes deliveries due that have failed, dead letters included.
	ActRedeliver = "redeliver"
	// ActDiscard forgets dead letters.
	ActDiscard = "discard"
	// ActTest delivers an event of the type orch.test, once.
	ActTest = "test"
)

// SteerDestinationRequest changes what a destination does.
type SteerDestinationRequest struct {
	Name string `json:"name"`
	Act  string `json:"act"`
	// Note says why a destination is paused.
	Note string `json:"note,omitempty"`
	// Secret is the new secret of a rotation. Keep is how long deliveries are also signed with the one before. Default: 24h.
	Secret string              `json:"secret,omitempty"`
	Keep   *schedules.Duration `json:"keep,omitempty"`
	// Deliveries are the ids of the deliveries to deliver again, or of the dead letters to discard; empty for all.
	Deliveries []string `json:"deliveries,omitempty"`
	Actor      string   `json:"actor,omitempty"`
}

// DestinationView describes a destination, without its secret.
type DestinationView struct {
	Name       string                  `json:"name"`
	ID         string                  `json:"id"`
	Definition destinations.Definition `json:"definition"`
	// Requestor is who has written the definition.
	Requestor string    `json:"requestor"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Paused is who has paused it, when and why; nil while it gets deliveries. The node pauses one whose receiver answers 410.
	Paused *hooks.Pause `json:"paused,omitempty"`
	// HasSecret is false if its secret is missing, after a restore: nothing is then delivered.
	HasSecret bool `json:"has_secret"`
	// PreviousUntil is until when deliveries are also signed with the secret before the current one.
	PreviousUntil *time.Time `json:"previous_until,omitempty"`
	// Delivered, Pending and Dead are the numbers of deliveries. Full is set while no further ones are taken from the log.
	Delivered int  `json:"delivered"`
	Pending   int  `json:"pending"`
	Dead      int  `json:"dead"`
	Full      bool `json:"full,omitempty"`
	// OldestPending is when the oldest event that waits for its delivery happened; nil if none waits.
	OldestPending *time.Time `json:"oldest_pending,omitempty"`
	// LastDelivered is the time of the last delivery, LastFailure the last attempt that failed since.
	LastDelivered *time.Time       `json:"last_delivered,omitempty"`
	LastFailure   *DeliveryAttempt `json:"last_failure,omitempty"`
	// PendingDeliveries and DeadDeliveries are the oldest of them.
	PendingDeliveries []DeliveryView `json:"pending_deliveries,omitempty"`
	DeadDeliveries    []DeliveryView `json:"dead_deliveries,omitempty"`
	// Tested is the result of the act test.
	Tested *DeliveryAttempt `json:"tested,omitempty"`
}

// DeliveryView describes a delivery that waits, or has failed for good.
type DeliveryView struct {
	// ID is its webhook-id.
	ID   string `json:"id"`
	Type string `json:"type"`
	Task string `json:"task"`
	// At is when the event happened.
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
	// NextAt is the time of the next attempt of a delivery that waits.
	NextAt *time.Time       `json:"next_at,omitempty"`
	Last   *DeliveryAttempt `json:"last,omitempty"`
}

// DeliveryAttempt is an attempt to deliver an event.
type DeliveryAttempt struct {
	At time.Time `json:"at"`
	// Status is the status of the answer; 0 for none.
	Status int `json:"status,omitempty"`
	// Error says why the attempt has failed; empty if it has not.
	Error string `json:"error,omitempty"`
}

// ActorFields returns the field that names who acts.
func (r *PutDestinationRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *SteerDestinationRequest) ActorFields() []*string { return []*string{&r.Actor} }
