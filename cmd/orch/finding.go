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
	// Mend is what to do if it is not OK.
	Mend string `json:"mend,omitempty"`
}

func fine(part, format string, args ...any) finding {
	return finding{Part: part, OK: true, Says: fmt.Sprintf(format, args...)}
}

func bad(part, says, mend string) finding { return finding{Part: part, Says: says, Mend: mend} }

// failed converts an error to a finding. The hint of the error, if any, is its Mend.
func failed(part string, err error, mend string) finding {
	e := fault.From(err).Rewrite(secrets.Clean)
	if e.Hint != "" {
		mend = e.Hint
	}
	return bad(part, e.Error(), mend)
}
