package httpapi

import "github.com/orch-dev/orch/fault"

// Status is the status of HTTP that says a code best.
func Status(code fault.Code) int { return statusOf(code) }
