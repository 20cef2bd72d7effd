package fault

// Code is an error code. The set is append-only: table M-4 of the specification, the standard codes of JSON-RPC, and
// codes of the log and the node.
type Code string

// The codes, by range: standard, authority (-321xx), resource (-322xx), validation (-323xx), rate and quota (-324xx),
// external systems (-325xx).
const (
	ParseError     Code = "PARSE_ERROR"
	InvalidRequest Code = "INVALID_REQUEST"
	MethodNotFound Code = "METHOD_NOT_FOUND"
	InvalidParams  Code = "INVALID_PARAMS"
	Internal       Code = "INTERNAL"

	Unauthorized      Code = "UNAUTHORIZED"
	Forbidden         Code = "FORBIDDEN"
	TokenExpired      Code = "TOKEN_EXPIRED"
	ApprovalRequired  Code = "APPROVAL_REQUIRED"
	ApprovalRejected  Code = "APPROVAL_REJECTED"
	ApprovalExpired   Code = "APPROVAL_EXPIRED"
	ToolDisabled      Code = "TOOL_DISABLED"
	OutsideRoot       Code = "OUTSIDE_ROOT"
	ReadOnly          Code = "READ_ONLY"
	CommandNotAllowed Code = "COMMAND_NOT_ALLOWED"
	SecretDetected    Code = "SECRET_DETECTED"
	ProtectedPath     Code = "PROTECTED_PATH"

	NotFound        Code = "NOT_FOUND"
	Conflict        Code = "CONFLICT"
	Gone            Code = "GONE"
	StateNotAllowed Code = "STATE_NOT_ALLOWED"
	PatchFailed     Code = "PATCH_FAILED"
	NotUnique       Code = "NOT_UNIQUE"
	Cancelled       Code = "CANCELLED"
	DataLoss        Code = "DATA_LOSS"
	InDoubt         Code = "IN_DOUBT"
	NewerStore      Code = "NEWER_STORE"
	NewerRequest    Code = "NEWER_REQUEST"

	ValidationError Code = "VALIDATION_ERROR"
	RequiredField   Code = "REQUIRED_FIELD"
	InvalidFormat   Code = "INVALID_FORMAT"
	InvalidPlan     Code = "INVALID_PLAN"

	RateLimited   Code = "RATE_LIMITED"
	QuotaExceeded Code = "QUOTA_EXCEEDED"
	DiskFull      Code = "DISK_FULL"

	FirebaseError   Code = "FIREBASE_ERROR"
	GithubError     Code = "GITHUB_ERROR"
	Timeout         Code = "TIMEOUT"
	ToolUnavailable Code = "TOOL_UNAVAILABLE"
	ExecFailed      Code = "EXEC_FAILED"
	NetworkError    Code = "NETWORK_ERROR"
	DatabaseError   Code = "DATABASE_ERROR"
	Unavailable     Code = "UNAVAILABLE"
	WorkerLost      Code = "WORKER_LOST"
	ToolFailed      Code = "TOOL_FAILED"
)

// Entry is one row of the registry.
type Entry struct {
	Code Code
	// RPC is the JSON-RPC code.
	RPC int
	// Meaning is a one-line description for the documentation.
	Meaning string
}

// Registry returns the whole table, ordered by range and number. One name has exactly one code.
func Registry() []Entry {
	return []Entry{
		{ParseError, -32700, "the message is not valid JSON"},
		{InvalidRequest, -32600, "the message is not a valid request"},
		{MethodNotFound, -32601, "no such method"},
		{InvalidParams, -32602, "the parameters do not match the method"},
		{Internal, -32603, "an internal error of orch; details are in its log"},

		{Unauthorized, -32100, "the credential is missing or wrong"},
		{Forbidden, -32101, "the credential, or the operating system, does not permit this"},
		{TokenExpired, -32102, "the credential has expired"},
		{ApprovalRequired, -32103, "a person has to approve this call first"},
		{ApprovalRejected, -32104, "a person rejected this call"},
		{ApprovalExpired, -32105, "nobody decided in time"},
		{ToolDisabled, -32106, "the tool is switched off"},
		{OutsideRoot, -32107, "the path leads outside the configured root"},
		{ReadOnly, -32108, "the node runs read-only"},
		{CommandNotAllowed, -32109, "the command is not on the list of permitted commands"},
		{SecretDetected, -32110, "the content holds a secret"},
		{ProtectedPath, -32111, "the path is protected"},

		{NotFound, -32200, "the object does not exist"},
		{Conflict, -32201, "the object is in use, already exists or has changed meanwhile"},
		{Gone, -32202, "the object was deleted permanently"},
		{StateNotAllowed, -32203, "the state of the task does not allow this"},
		{PatchFailed, -32204, "the patch does not apply"},
		{NotUnique, -32205, "the text occurs more than once"},
		{Cancelled, -32206, "the task or the call was cancelled"},
		{DataLoss, -32207, "the store lost or changed something that was acknowledged"},
		{InDoubt, -32208, "it is unknown whether a call with effects happened"},
		{NewerStore, -32209, "a newer orch has written it; this one may only read what it understands"},
		{NewerRequest, -32210, "the request is of a newer orch; this one may understand it wrongly"},

		{ValidationError, -32300, "an input violates a rule"},
		{RequiredField, -32301, "a required input is missing"},
		{InvalidFormat, -32302, "an input has the wrong form"},
		{InvalidPlan, -32303, "the plan has errors"},

		{RateLimited, -32400, "too many calls; try again later"},
		{QuotaExceeded, -32401, "a quota is used up"},
		{DiskFull, -32402, "the disk of the store is (almost) full"},

		{FirebaseError, -32500, "the Firebase backend failed"},
		{GithubError, -32501, "GitHub failed"},
		{Timeout, -32502, "it took too long"},
		{ToolUnavailable, -32503, "the server of the tool is not reachable"},
		{ExecFailed, -32504, "a program could not be run"},
		{NetworkError, -32505, "the network failed"},
		{DatabaseError, -32506, "the database failed"},
		{Unavailable, -32507, "the node is not reachable, is stopping or has too much to do"},
		{WorkerLost, -32508, "the worker of the call stopped answering"},
		{ToolFailed, -32509, "the tool of an external MCP server reported an error"},
	}
}

// RPC returns the JSON-RPC code of c, or that of INTERNAL for an unregistered code.
func (c Code) RPC() int {
	for _, e := range Registry() {
		if e.Code == c {
			return e.RPC
		}
	}
	return Internal.RPC()
}
