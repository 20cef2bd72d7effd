package db

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// decodeParameters converts JSON values to nil, bool, json.Number and string.
func decodeParameters(list []json.RawMessage) ([]any, error) {
	params := make([]any, len(list))
	for i, raw := range list {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, fault.Wrap(fault.InvalidFormat, err, "is not a JSON value").WithField(parameterField(i))
		}
		switch v := v.(type) {
		case nil, bool, json.Number:
			params[i] = v
		case string:
			if strings.ContainsRune(v, 0) {
				return nil, fault.New(fault.ValidationError, "contains a NUL character").WithField(parameterField(i))
			}
			params[i] = v
		default: // objects and lists, for columns of type JSON
			params[i] = string(raw)
		}
	}
	return params, nil
}

func parameterField(i int) string { return "parameters[" + strconv.Itoa(i) + "]" }

// wrongCount is the error for more or fewer parameters than placeholders.
func wrongCount(placeholders, parameters int) *fault.Error {
	return fault.New(fault.ValidationError, "the statement has %d placeholders, but %d parameters were given", placeholders, parameters).
		WithField("parameters")
}
