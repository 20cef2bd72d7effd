// Package failpoint lets a test end a process in the middle of things and plant known faults, so that
// the crash test can reach every moment that counts and prove that it would notice. All of it is
// compiled only with the build tag failpoint: in every other build Pass, On and their kin are empty and
// cost nothing.
package failpoint

// Point is a moment at which a process can be killed: who passes it stands still, and a little later the
// whole process dies.
type Point string

// The points of a node.
const (
	// BeforeAppend: a commit was decided and is not on its way yet. Written: the server has it, and it is
	// not synced. Appended: it is durable, and nobody was told.
	BeforeAppend Point = "before-append"
	Written      Point = "written"
	Appended     Point = "appended"
	// BlobStored: the large values of a commit are stored, the commit is not.
	BlobStored Point = "blob-stored"
	// BeforeAnswer and Answered lie around the answer to a request.
	BeforeAnswer Point = "before-answer"
	Answered     Point = "answered"
	// Reported: the outcome of a call has arrived and is not in the log.
	Reported Point = "reported"
	// BeforeMark: the high-water mark is about to move. MarkStored: it has moved in the store and not yet
	// in its file.
	BeforeMark Point = "before-mark"
	MarkStored Point = "mark-stored"
	// BeforeCheckpoint and CheckpointSaved lie around the write of a checkpoint, whose event is in the log.
	BeforeCheckpoint Point = "before-checkpoint"
	CheckpointSaved  Point = "checkpoint-saved"
	// BeforeIndex and IndexSaved lie around the write of the index of open tasks, at a stop.
	BeforeIndex Point = "before-index"
	IndexSaved  Point = "index-saved"
	// ArchivePart: a part of a history is in the archive. Archived: all of it, and it is still in the
	// live log as well.
	ArchivePart Point = "archive-part"
	Archived    Point = "archived"
	// Removing: it is on record which histories leave the archive, and they are still there.
	Removing Point = "removing"
	// Restoring: the node has read the heads of its log and none of the open tasks.
	Restoring Point = "restoring"
)

// The points of a worker.
const (
	// Taken: a call has arrived. BeforeEffect and AfterEffect lie around the call of its tool.
	Taken        Point = "taken"
	BeforeEffect Point = "before-effect"
	AfterEffect  Point = "after-effect"
	// Delivered: the node has taken the outcome, and the worker has not forgotten it.
	Delivered Point = "delivered"
)

// EnvPlant is the environment variable with the faults that a process has, separated by commas.
const EnvPlant = "ORCH_PLANT"

// Fault is a mistake that can be planted.
type Fault string

// The faults. Each stands where a careless change would make it.
const (
	// AckEarly acknowledges a decision before it is in the log.
	AckEarly Fault = "ack-early"
	// SkipFence accepts what an older attempt or another worker says.
	SkipFence Fault = "skip-fence"
	// SkipDedup makes a new task of every request, whatever its idempotency key.
	SkipDedup Fault = "skip-dedup"
	// AskEarly asks a verify tool about a call that may still run.
	AskEarly Fault = "ask-early"
	// SkipOne resumes a watch one commit too late.
	SkipOne Fault = "skip-one"
	// DoubleEnd ends a task twice.
	DoubleEnd Fault = "double-end"
)
