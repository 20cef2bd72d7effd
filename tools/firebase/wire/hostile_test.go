package wire_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/orch-dev/orch/tools/firebase/wire"
)

func lengthed(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func numbered(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

// asField is a document with a field f.
func asField(value []byte) []byte {
	entry := append(lengthed(1, []byte("f")), lengthed(2, value)...)
	return lengthed(1, append(lengthed(1, []byte("n")), lengthed(2, entry)...))
}

// Values at the limits of their types are read.
func TestLimits(t *testing.T) {
	t.Parallel()
	fixed := func(bits uint64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), bits)
	}
	for name, test := range map[string]struct {
		value []byte
		want  any
	}{
		"least integer":    {numbered(2, 1<<63), float64(math.MinInt64)},
		"greatest integer": {numbered(2, math.MaxInt64), float64(math.MaxInt64)},
		"minus one":        {numbered(2, math.MaxUint64), -1.0},
		"NaN":              {fixed(0xfff8000000000001), "NaN"},
		"infinity":         {fixed(math.Float64bits(math.Inf(1))), "+Inf"},
		"last one counts":  {append(numbered(1, 1), lengthed(17, []byte("s"))...), "s"},
		"empty text":       {lengthed(17, nil), ""},
		"empty array":      {lengthed(9, nil), []any{}},
		"empty object":     {lengthed(6, nil), map[string]any{}},
		"empty name":       {lengthed(6, lengthed(1, append(lengthed(1, nil), lengthed(2, numbered(1, 1))...))), map[string]any{"": true}},
		"no name":          {lengthed(6, lengthed(1, lengthed(2, numbered(1, 1)))), map[string]any{"": true}},
		"true beyond one":  {numbered(1, 1<<40), true},
		"first time":       {lengthed(10, numbered(1, uint64(firstSecond))), "0001-01-01T00:00:00Z"},
		"last time":        {lengthed(10, append(numbered(1, 253402300799), numbered(2, 999_999_999)...)), "9999-12-31T23:59:59.999999999Z"},
	} {
		found, err := wire.ReadQuery(asField(test.value))
		require.NoError(t, err, name)
		assert.Equal(t, test.want, found.Fields["f"], name)
	}
	found, err := wire.ReadQuery(asField(fixed(1 << 63)))
	require.NoError(t, err)
	zero, ok := found.Fields["f"].(float64)
	assert.True(t, ok && zero == 0 && math.Signbit(zero))
}

var firstSecond = int64(-62135596800)

// What no message can be is refused, without much time or memory.
func TestHostile(t *testing.T) {
	t.Parallel()
	deep := numbered(1, 1)
	for range 10_000 {
		deep = lengthed(9, lengthed(1, lengthed(6, lengthed(1, append(lengthed(1, []byte("a")), lengthed(2, deep)...)))))
	}
	for name, value := range map[string][]byte{
		"deep":               deep,
		"long varint":        append(protowire.AppendTag(nil, 2, protowire.VarintType), bytes.Repeat([]byte{0xff}, 11)...),
		"varint over 64":     append(protowire.AppendTag(nil, 2, protowire.VarintType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02),
		"length over":        append(protowire.AppendTag(nil, 17, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"negative length":    append(protowire.AppendTag(nil, 17, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
		"field 0":            {0},
		"field too large":    {0xff, 0xff, 0xff, 0xff, 0x7f, 0},
		"kind 7":             {15},
		"groups":             bytes.Repeat(protowire.AppendTag(nil, 99, protowire.StartGroupType), 20_000),
		"end of no group":    protowire.AppendTag(nil, 99, protowire.EndGroupType),
		"no UTF-8":           lengthed(17, []byte("\xff")),
		"no UTF-8 as a name": lengthed(6, lengthed(1, append(lengthed(1, []byte("\xff")), lengthed(2, numbered(1, 1))...))),
		"time before":        lengthed(10, numbered(1, uint64(firstSecond-1))),
		"time of no day":     lengthed(10, numbered(1, 1<<63)),
		"other type":         lengthed(2, []byte("x")),
		"no value":           lengthed(6, lengthed(1, lengthed(1, []byte("a")))),
	} {
		begun := time.Now()
		_, err := wire.ReadQuery(asField(value))
		require.Error(t, err, name)
		_, err = wire.ReadNews(lengthed(3, append(asField(value), numbered(5, 1)...)), 1)
		require.Error(t, err, name)
		assert.Less(t, time.Since(begun), 5*time.Second, name)
		assert.Less(t, len(err.Error()), 200, name)
	}
	_, err := wire.ReadNews(lengthed(2, lengthed(2, []byte{0xff})), 1)
	require.Error(t, err)
}
