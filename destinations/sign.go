package destinations

import (
	"time"

	"github.com/orch-dev/orch/hooks"
)

// signatureHeader is the header with the signatures. The names of hooks.Headers are in lower case.
const signatureHeader = "webhook-signature"

// Sign returns the headers webhook-id, webhook-timestamp and webhook-signature of a body, with a signature for each secret. Empty
// secrets sign nothing.
func Sign(secrets [2]string, id string, body []byte, now time.Time) hooks.Headers {
	all := hooks.Sign(hooks.Standard, secrets[0], id, body, now)
	if secrets[1] != "" {
		all[signatureHeader] += " " + hooks.Sign(hooks.Standard, secrets[1], id, body, now)[signatureHeader]
	}
	return all
}
