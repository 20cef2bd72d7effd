package httpapi

import "github.com/orch-dev/orch/fault"

// Status returns the HTTP status for an error code.
func Status(code fault.Code) int { return statusOf(code) }
