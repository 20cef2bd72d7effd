package bus

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// sealField is the beginning of the last field of a sealed JSON object. The field contains the hash of the object without
// this field.
const sealField = `,"sum":"`

// seal encodes a value as a line of JSON with its hash in a further field. The value must encode as an object; one without
// fields gets no hash. Programs that do not know seals ignore the field.
func seal(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a file cannot be encoded")
	}
	if string(data) == "{}" {
		return append(data, '\n'), nil
	}
	sum := events.Hash(data)
	return append(data[:len(data)-1], sealField+sum+"\"}\n"...), nil
}

// unseal decodes the result of seal. DATA_LOSS if data does not match its hash. It accepts objects without a hash, which
// older programs have written, and the comma that they wrote before the hash of an object without fields.
func unseal(data []byte, into any) error {
	if at := bytes.LastIndex(data, []byte(sealField)); at >= 0 {
		body := append(bytes.Clone(data[:at]), '}')
		if string(bytes.TrimSpace(data[at:])) != sealField+events.Hash(body)+`"}` {
			return fault.New(fault.DataLoss, "it does not match its checksum")
		}
		data = body
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.Wrap(fault.DataLoss, err, "it is not valid JSON")
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

// readSealed reads a sealed file. Errors: NOT_FOUND if the file is missing, DATA_LOSS if it is damaged.
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
