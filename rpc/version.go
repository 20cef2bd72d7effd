package rpc

import (
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// ProtocolVersion is the version of the requests of this package: their subjects, headers and JSON. Every request names it. A node
// serves requests of its own version and of all older ones, and refuses newer ones with NEWER_REQUEST. Version 1 is that of 0.1.0, whose
// requests name none.
//
// It is raised when something that an older node knows gets another meaning. New methods and new fields need no new version, because
// an older node refuses what it does not know by name.
const ProtocolVersion = 2

// protocolHeader contains the version of a request.
const protocolHeader = "Orch-Protocol"

// checkProtocol returns NEWER_REQUEST for a request whose version is newer than ProtocolVersion.
func checkProtocol(h nats.Header) error {
	text := h.Get(protocolHeader)
	if text == "" {
		return nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange) || v == 0: // out of range, v is the largest number
		return fault.New(fault.InvalidRequest, "must be the version of the protocol, a number from 1").WithField(protocolHeader)
	case v > ProtocolVersion:
		return fault.New(fault.NewerRequest, "the request has version %d of the protocol, this node knows 1 to %d", v, ProtocolVersion).
			WithHint("use a newer orch for the node; nothing was done")
	default:
		return nil
	}
}
