package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// maxTokens is the greatest number of tokens that is believed. It is more than any model reads or writes.
const maxTokens = 1 << 40

// Tokens is a number of tokens in an answer. Some servers write it as a float or a text. What is no number counts as 0, which means that
// the provider does not say it: the answer itself is complete, and asking for it again would cost as much once more.
type Tokens int64

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *Tokens) UnmarshalJSON(data []byte) error {
	value, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil && !math.IsInf(value, 0) || math.IsNaN(value) {
		value = 0
	}
	*n = Tokens(math.Ceil(min(max(value, 0), maxTokens)))
	return nil
}

// Lenient decodes the usage of an answer into the value that to points to, as far as it is understood.
func Lenient(data []byte, to any) error {
	_ = json.Unmarshal(data, to) // what is left out is not known
	return nil
}
