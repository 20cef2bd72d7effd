// Package refusal creates the errors of the Firebase tools. The reason of each error is its name in the S3 rules, and its
// code is the corresponding code of package fault (S3-025, S3-035, S3-147 to S3-157).
package refusal

import "github.com/orch-dev/orch/fault"

// The error names of the S3 rules, used as reasons.
const (
	PermissionDenied  = "PERMISSION_DENIED"
	NotFound          = "NOT_FOUND"
	InvalidPath       = "INVALID_PATH"
	Conflict          = "CONFLICT"
	SizeLimitExceeded = "SIZE_LIMIT_EXCEEDED"
	InvalidDataType   = "INVALID_DATA_TYPE"
	ValidationError   = "VALIDATION_ERROR"
	QuotaExceeded     = "QUOTA_EXCEEDED"
	ConnectionError   = "CONNECTION_ERROR"
)

// Code returns the code for a reason, INTERNAL for an unknown reason.
func Code(reason string) fault.Code {
	switch reason {
	case PermissionDenied:
		return fault.Forbidden
	case NotFound:
		return fault.NotFound
	case InvalidPath, InvalidDataType:
		return fault.InvalidFormat
	case Conflict:
		return fault.Conflict
	case SizeLimitExceeded, ValidationError:
		return fault.ValidationError
	case QuotaExceeded:
		return fault.QuotaExceeded
	case ConnectionError:
		return fault.FirebaseError
	default:
		return fault.Internal
	}
}

// New returns an error with the reason and a formatted message. A %w verb sets the cause.
func New(reason, format string, args ...any) *fault.Error {
	return fault.New(Code(reason), format, args...).WithReason(reason)
}
