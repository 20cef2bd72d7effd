package bus

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// sealField is the beginning of the last field of a sealed JSON object: the hash of the object without it.
const sealField = `,"sum":"`

// seal returns a value, which must encode as an object with fields, as a line of JSON with its hash. Programs
// that do not know seals can read it too.
func seal(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a file cannot be encoded")
	}
	sum := events.Hash(data)
	return append(data[:len(data)-1], sealField+sum+"\"}\n"...), nil
}

// unseal decodes the result of seal, or returns DATA_LOSS if it was changed. Objects of older programs have no hash.
func unseal(data []byte, into any) error {
	if at := bytes.LastIndex(data, []byte(sealField)); at >= 0 {
		body := append(bytes.Clone(data[:at]), '}')
		if string(bytes.TrimSpace(data[at:])) != sealField+events.Hash(body)+`"}` {
			return fault.New(fault.DataLoss, "it does not fit its checksum")
		}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.Wrap(fault.DataLoss, err, "it is no JSON")
	}
	return nil
}

func writeSealed(path string, value any) error {
	data, err := seal(value)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// readSealed reads a sealed file: NOT_FOUND if there is none, DATA_LOSS if it is damaged.
func readSealed(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be read")
	}
	if err := unseal(data, into); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the file "+path+" is damaged")
	}
	return nil
}
