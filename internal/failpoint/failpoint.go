// Package failpoint lets a test kill a process at defined points and inject known faults. With it the crash test covers
// every critical moment, and proves that it detects errors. The package is active only with the build tag failpoint: in
// every other build its functions do nothing and cost nothing.
package failpoint

// Point is a point in the code at which a process can be killed. The goroutine that passes an armed point blocks, and a
// little later the whole process dies.
type Point string

// The points of a node.
const (
	// BeforeAppend: a commit was decided but not sent yet. Written: the server has the commit but has not synced it.
	// Appended: the commit is durable, but no subscriber was notified.
	BeforeAppend Point = "before-append"
	Written      Point = "written"
	Appended     Point = "appended"
	// BlobStored: the large values of a commit are stored, the commit is not.
	BlobStored Point = "blob-stored"
	// BeforeAnswer and Answered are before and after the answer to a request.
	BeforeAnswer Point = "before-answer"
	Answered     Point = "answered"
	// Reported: the outcome of a call has arrived but is not in the log yet.
	Reported Point = "reported"
	// BeforeMark: the high-water mark is about to advance. MarkStored: the mark has advanced in the store but not yet
	// in its file.
	BeforeMark Point = "before-mark"
	MarkStored Point = "mark-stored"
	// BeforeCheckpoint and CheckpointSaved are before and after a checkpoint is written; its event is already in the
	// log.
	BeforeCheckpoint Point = "before-checkpoint"
	CheckpointSaved  Point = "checkpoint-saved"
	// BeforeIndex and IndexSaved are before and after the index of open tasks is written during a shutdown.
	BeforeIndex Point = "before-index"
	IndexSaved  Point = "index-saved"
	// ArchivePart: a part of a history is in the archive. Archived: the whole history is in the archive, and also still
	// in the live log.
	ArchivePart Point = "archive-part"
	Archived    Point = "archived"
	// Removing: the histories to remove from the archive are recorded but not removed yet.
	Removing Point = "removing"
	// Importing: all of an imported history but its last message is in the archive.
	Importing Point = "importing"
	// Restoring: the node has read the heads of its log but no open task yet.
	Restoring Point = "restoring"
)

// The points of a worker.
const (
	// Taken: a call has arrived. BeforeEffect and AfterEffect are before and after its tool runs.
	Taken        Point = "taken"
	BeforeEffect Point = "before-effect"
	AfterEffect  Point = "after-effect"
	// Delivered: the node has accepted the outcome, but the worker still stores it.
	Delivered Point = "delivered"
)

// EnvPlant is the environment variable that lists the faults to inject into a process, separated by commas.
const EnvPlant = "ORCH_PLANT"

// Fault is an error that can be injected.
type Fault string

// The faults. Each one is a plausible programming error.
const (
	// AckEarly acknowledges a decision before it is in the log.
	AckEarly Fault = "ack-early"
	// SkipFence accepts reports of older attempts and other workers.
	SkipFence Fault = "skip-fence"
	// SkipDedup submits a new task for every request, ignoring its idempotency key.
	SkipDedup Fault = "skip-dedup"
	// AskEarly runs a verify tool while the call may still be running.
	AskEarly Fault = "ask-early"
	// SkipOne resumes a watch one commit too late.
	SkipOne Fault = "skip-one"
	// DoubleEnd ends a task twice.
	DoubleEnd Fault = "double-end"
	// SkipSaid leaves what people have said out of the requests to a model that follow the first one.
	SkipSaid Fault = "skip-said"
	// SkipLedger asks models without regard to the budgets of the node.
	SkipLedger Fault = "skip-ledger"
)
