package bus

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// NoticePrefix is the prefix of the subjects of notifications, "orch.notice.<task>". Notifications are not stored: only
// current subscribers get them.
const NoticePrefix = "orch.notice"

// Notify publishes a notification about a task and returns when the server has received it. Errors: UNAVAILABLE if
// the server cannot be reached, TIMEOUT and CANCELLED when ctx ends.
func (c *Conn) Notify(ctx context.Context, task events.TaskID, data []byte) error {
	if err := c.nc.Publish(NoticePrefix+"."+string(task), data); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the bus does not take the notification")
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		if ctx.Err() != nil {
			return fault.From(ctx.Err())
		}
		return fault.Wrap(fault.Unavailable, err, "the bus does not take the notification")
	}
	return nil
}
