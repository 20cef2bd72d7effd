package otlp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces/otlp"
)

// resourceOf returns the attributes of the resource of spans.
func resourceOf(t *testing.T, s otlp.Source) map[string]string {
	t.Helper()
	data, err := s.ResourceSpans(nil)
	require.NoError(t, err)
	var groups []struct {
		Resource struct {
			Attributes []struct {
				Key   string
				Value struct{ StringValue string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &groups))
	all := map[string]string{}
	for _, a := range groups[0].Resource.Attributes {
		assert.NotContains(t, all, a.Key, "a key comes once")
		all[a.Key] = a.Value.StringValue
	}
	return all
}

// The environment describes the resource as the specification of OpenTelemetry says.
func TestResource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, list, want string }{
		{"", "", "host.name=h service.instance.id=i service.name=orch service.version=1"},
		{"builds", "", "host.name=h service.instance.id=i service.name=builds service.version=1"},
		{"", "service.name=a,service.namespace=ci", "host.name=h service.instance.id=i service.name=a service.namespace=ci service.version=1"},
		{"b", "service.name=a", "host.name=h service.instance.id=i service.name=b service.version=1"},
		{"", " deployment.environment.name = prod%2Ceu%3D1+%C3%BC ,, host.name=other", "deployment.environment.name=prod,eu=1+ü host.name=other service.instance.id=i service.name=orch service.version=1"},
		{"", "a=1,a=2,b=", "a=2 b= host.name=h service.instance.id=i service.name=orch service.version=1"},
	} {
		env := map[string]string{"OTEL_SERVICE_NAME": c.name, "OTEL_RESOURCE_ATTRIBUTES": c.list}
		s, err := otlp.Source{Version: "1", Host: "h", Instance: "i"}.From(func(key string) string { return env[key] })
		require.NoError(t, err, c.list)
		got := resourceOf(t, s)
		for pair := range strings.SplitSeq(c.want, " ") {
			key, value, _ := strings.Cut(pair, "=")
			assert.Equal(t, value, got[key], "%s of %q", key, c.list)
			delete(got, key)
		}
		assert.Empty(t, got, c.list)
	}
	assert.Equal(t, map[string]string{"service.name": "orch"}, resourceOf(t, otlp.Source{}), "what is not known is left out")
}

func TestWrongResource(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 129 {
		fmt.Fprintf(&many, "k%d=v,", i)
	}
	for _, list := range []string{"a", "=b", "a=%", "a=%zz", "%=b", "a=b=c", "a=%0A", "a=%FF", "%00=b", many.String(), "a=" + strings.Repeat("x", 8192)} {
		_, err := otlp.Source{}.From(func(key string) string { return map[string]string{"OTEL_RESOURCE_ATTRIBUTES": list}[key] })
		require.Error(t, err, list)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
		assert.Equal(t, "OTEL_RESOURCE_ATTRIBUTES", fault.From(err).Field)
	}
	for _, name := range []string{"a\nb", "\xff", strings.Repeat("x", 8193)} {
		_, err := otlp.Source{}.From(func(key string) string { return map[string]string{"OTEL_SERVICE_NAME": name}[key] })
		require.Error(t, err, name)
		assert.Equal(t, "OTEL_SERVICE_NAME", fault.From(err).Field)
	}
}

func FuzzParseResource(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a=b,c=d%2C", "a", "=b", "a=%", "a=b=c", ", ,", "a=1,a=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := otlp.ParseResource(text)
		if err != nil {
			assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
			return
		}
		keys := map[string]bool{}
		for _, a := range list {
			assert.NotEmpty(t, a.Key)
			assert.False(t, keys[a.Key])
			keys[a.Key] = true
			assert.LessOrEqual(t, len(a.Key), len(text))
		}
	})
}
