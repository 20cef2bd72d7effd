package main

import (
	"fmt"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
)

// finding is the answer of one probe.
type finding struct {
	Part string `json:"part"`
	OK   bool   `json:"ok"`
	Says string `json:"says"`
	// Mend is what to do when it is not OK.
	Mend string `json:"mend,omitempty"`
}

func fine(part, format string, args ...any) finding {
	return finding{Part: part, OK: true, Says: fmt.Sprintf(format, args...)}
}

func bad(part, says, mend string) finding { return finding{Part: part, Says: says, Mend: mend} }

// failed turns an error into a finding; its hint is the mend.
func failed(part string, err error, mend string) finding {
	e := fault.From(err).Rewrite(secrets.Clean)
	if e.Hint != "" {
		mend = e.Hint
	}
	return bad(part, e.Error(), mend)
}
