package main

import (
	"fmt"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
)

// finding is the result of one probe.
type finding struct {
	Part string `json:"part"`
	OK   bool   `json:"ok"`
	Says string `json:"says"`
	// Mend describes how to repair the part if OK is false.
	Mend string `json:"mend,omitempty"`
}

// fine returns the finding for a part without problems.
func fine(part, format string, args ...any) finding {
	return finding{Part: part, OK: true, Says: fmt.Sprintf(format, args...)}
}

// bad returns the finding for a part with a problem.
func bad(part, says, mend string) finding { return finding{Part: part, Says: says, Mend: mend} }

// failed converts an error to a finding. Mend is the hint of the error, or mend if the error has none.
func failed(part string, err error, mend string) finding {
	e := fault.From(err).Rewrite(secrets.Clean)
	if e.Hint != "" {
		mend = e.Hint
	}
	return bad(part, e.Error(), mend)
}
