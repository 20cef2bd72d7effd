package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/orch-dev/orch/fault"
)

// TaskID identifies a task: "TASK_" and a ULID. Its 80 random bits come from crypto/rand (A-10, S2-072).
type TaskID string

// TaskPrefix is how the ids of tasks begin.
const TaskPrefix = "TASK_"

// NewRequestID returns the id of a request, which is in the log of the node and in the first commit of a task that it submits (S3-007).
func NewRequestID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "req_" + hex.EncodeToString(b[:])
}

// NewTaskID returns a new id that sorts by at.
func NewTaskID(at time.Time) TaskID { return TaskIDFrom(at, rand.Reader) }

// TaskIDFrom returns a new id with random bits from entropy, which must not fail.
func TaskIDFrom(at time.Time, entropy io.Reader) TaskID {
	return TaskID(TaskPrefix + newULID(at, entropy))
}

// NewCheckpointID returns a new checkpoint id for a task.
func NewCheckpointID(task TaskID) string { return CheckpointIDFrom(task, rand.Reader) }

const checkpointPrefix = "CKPT_"

// CheckpointIDFrom returns a new checkpoint id for a task: "CKPT_", the ULID of the task, and eight random characters
// from entropy, which must not fail.
func CheckpointIDFrom(task TaskID, entropy io.Reader) string {
	return partID(checkpointPrefix, task, entropy)
}

// TaskOfCheckpoint returns the task that a checkpoint belongs to. It returns false for invalid ids, and for ids of
// earlier versions, which do not contain their task.
func TaskOfCheckpoint(id string) (TaskID, bool) { return taskOfPart(checkpointPrefix, id) }

// AgentPrefix is the prefix of agents as actors of commits: agent:NAME.
const AgentPrefix = "agent:"

// AgentIDPrefix is the prefix of the ids of registered agents. No inbox of a NATS library begins with it.
const AgentIDPrefix = "agent-"

// NewAgentID returns the id of a registered agent: "agent-" and a ULID in lower case.
func NewAgentID(at time.Time) string {
	return AgentIDPrefix + strings.ToLower(newULID(at, rand.Reader))
}

// TimeOfAgent returns the creation time in an agent id, to the millisecond, or the zero time for an invalid id.
func TimeOfAgent(id string) time.Time {
	body, ok := strings.CutPrefix(id, AgentIDPrefix)
	parsed, err := ulid.ParseStrict(strings.ToUpper(body))
	if !ok || err != nil {
		return time.Time{}
	}
	return Time(ulid.Time(parsed.Time()))
}

// NewTokenID returns a new id for a bearer token: "TOK_" and a ULID. The id is not secret.
func NewTokenID(at time.Time) string { return "TOK_" + newULID(at, rand.Reader) }

// ScheduleIDFrom returns a new id for a schedule with random bits from entropy, which must not fail: "SCH_" and a ULID.
func ScheduleIDFrom(at time.Time, entropy io.Reader) string { return "SCH_" + newULID(at, entropy) }

// NewDestinationID returns a new id for a destination: "DEST_" and a ULID.
func NewDestinationID(at time.Time) string { return "DEST_" + newULID(at, rand.Reader) }

// NewHookID returns a new id for a hook: "HOOK_" and a ULID.
func NewHookID(at time.Time) string { return "HOOK_" + newULID(at, rand.Reader) }

const messagePrefix = "MSG_"

// NewMessageID returns a new message id: "MSG_" and a ULID.
func NewMessageID(at time.Time) string { return messagePrefix + newULID(at, rand.Reader) }

// KeyedMessageID derives a message id from a key: equal keys give equal ids. The id does not sort by time.
func KeyedMessageID(key string) string {
	return messagePrefix + keyedULID("orch message key\x00"+key).String()
}

// IsMessageID reports whether text has the form of a message id.
func IsMessageID(text string) bool {
	body, ok := strings.CutPrefix(text, messagePrefix)
	parsed, err := ulid.ParseStrict(body)
	return ok && err == nil && parsed.String() == body
}

func newULID(at time.Time, entropy io.Reader) string {
	return ulid.MustNew(ulid.Timestamp(at), entropy).String()
}

// Time returns the time in the id, to the millisecond, or the zero time for an invalid id.
func (id TaskID) Time() time.Time {
	body, _ := strings.CutPrefix(string(id), TaskPrefix)
	parsed, err := ulid.ParseStrict(body)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(parsed.Time())
}

// KeyedTaskID derives the first task id of an idempotency key. The key is scoped to the identity owner; an empty owner
// is the shared scope. The id does not sort by time.
func KeyedTaskID(owner, key string) TaskID {
	return KeyedTaskIDAt(owner, key, 0)
}

// KeyedTaskIDAt is KeyedTaskID for a later task with the same key: generation counts the earlier tasks that no longer
// hold the key.
func KeyedTaskIDAt(owner, key string, generation int) TaskID {
	if owner != "" {
		key = owner + "\x00" + key
	}
	kind := "orch idempotency key"
	if generation > 0 {
		kind += " " + strconv.Itoa(generation)
	}
	return TaskID(TaskPrefix + keyedULID(kind+"\x00"+key).String())
}

// keyedULID derives a ULID from text.
func keyedULID(text string) ulid.ULID {
	sum := sha256.Sum256([]byte(text))
	id := ulid.ULID(sum[:16])
	id[0] &= 0x7f // the first character of a ULID is 0 to 7
	return id
}

// ParseTaskID returns s as an id, or INVALID_FORMAT unless s is in canonical form.
func ParseTaskID(s string) (TaskID, error) {
	body, ok := strings.CutPrefix(s, TaskPrefix)
	if !ok {
		return "", invalidID(s)
	}
	parsed, err := ulid.ParseStrict(body)
	if err != nil || parsed.String() != body {
		return "", invalidID(s)
	}
	return TaskID(s), nil
}

func invalidID(s string) error {
	const longest = 40
	shown := strconv.Quote(s)
	if len(s) > longest {
		shown = fmt.Sprintf("a text of %d bytes", len(s)) // a truncated secret would no longer be detected and redacted
	}
	return fault.New(fault.InvalidFormat, "%s is not a task id", shown).WithField("task").
		WithHint("a task id is TASK_ and 26 characters, such as TASK_01JD0000000000000000000000")
}
