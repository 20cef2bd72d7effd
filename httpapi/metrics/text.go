package metrics

import (
	"math"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/internal/histogram"
)

// text builds the exposition of metrics.
type text struct {
	out []byte
	// family is the metric that samples belong to. begun is set when its head is written, and series counts all series.
	family *Family
	begun  bool
	series int
}

// add adds a sample of the current metric. values are the values of its labels.
func (t *text) add(value float64, values ...string) { t.sample("", "", value, values) }

// flag adds 1 or 0.
func (t *text) flag(value bool, values ...string) {
	if value {
		t.add(1, values...)
		return
	}
	t.add(0, values...)
}

// sample adds a sample of a part of the current metric. bound is the value of the label le; empty for none.
func (t *text) sample(part, bound string, value float64, values []string) {
	t.head()
	t.out = append(t.out, t.family.Name+part...)
	separator := byte('{')
	label := func(name, value string) {
		t.out = append(append(append(t.out, separator), name...), '=', '"')
		t.out = append(escape(t.out, value), '"')
		separator = ','
	}
	for i, l := range t.family.Labels {
		label(l.Name, values[i])
	}
	if bound != "" {
		label("le", bound)
	}
	if separator == ',' {
		t.out = append(t.out, '}')
	}
	t.out = append(appendValue(append(t.out, ' '), value), '\n')
	t.series++
}

// head writes what precedes the first sample of a metric.
func (t *text) head() {
	if t.begun {
		return
	}
	t.begun = true
	f := t.family
	t.out = append(t.out, "# HELP "+f.Name+" "+strings.ReplaceAll(strings.ReplaceAll(f.Help, `\`, `\\`), "\n", `\n`)+"\n# TYPE "+f.Name+" "+string(f.Type)+"\n"...)
}

// histogram adds a histogram. It adds nothing for nil.
func (t *text) histogram(c *histogram.Counts) {
	if c == nil {
		return
	}
	for _, b := range c.Buckets {
		t.sample("_bucket", strconv.FormatFloat(b.UpTo.Seconds(), 'g', -1, 64), float64(b.Count), nil)
	}
	t.sample("_bucket", "+Inf", float64(c.Count), nil)
	t.sample("_sum", "", c.Sum.Seconds(), nil)
	t.sample("_count", "", float64(c.Count), nil)
}

// escape appends the value of a label.
func escape(out []byte, value string) []byte {
	value = strings.ToValidUTF8(value, "\uFFFD")
	for i := range len(value) {
		switch c := value[i]; c {
		case '\\', '"':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		default:
			out = append(out, c)
		}
	}
	return out
}

// appendValue appends a number.
func appendValue(out []byte, v float64) []byte {
	const exact = 1 << 53
	if v == math.Trunc(v) && math.Abs(v) < exact {
		return strconv.AppendInt(out, int64(v), 10)
	}
	return strconv.AppendFloat(out, v, 'g', -1, 64)
}
