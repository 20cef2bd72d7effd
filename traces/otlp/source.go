package otlp

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
)

// Source describes the program that exports spans: it is their resource.
type Source struct {
	// Version is the version of orch. Host is the name of the machine of the node, Instance tells the node from others; "" if they are
	// not known.
	Version, Host, Instance string
	// Resource has further attributes. They replace those of the same keys.
	Resource []traces.Attribute
}

// The variables of OpenTelemetry that describe the resource.
const (
	nameVariable     = "OTEL_SERVICE_NAME"
	resourceVariable = "OTEL_RESOURCE_ATTRIBUTES"
)

const (
	// maxResource is how long the variables may be, maxAttributes how many attributes they may have: the limit of the SDKs.
	maxResource   = 8192
	maxAttributes = 128
)

const serviceName = "service.name"

// From returns the source with the attributes of OTEL_RESOURCE_ATTRIBUTES, and with the name of OTEL_SERVICE_NAME, which goes before.
// It returns INVALID_FORMAT for what is none.
func (s Source) From(getenv func(string) string) (Source, error) {
	list, err := ParseResource(getenv(resourceVariable))
	if err != nil {
		return s, err
	}
	name := strings.TrimSpace(getenv(nameVariable))
	if len(name) > maxResource || !isPlain(name) {
		return s, fault.New(fault.InvalidFormat, "must be a name of at most %d bytes, without control characters", maxResource).WithField(nameVariable)
	}
	if name != "" {
		list = put(list, traces.Attribute{Key: serviceName, Value: name})
	}
	s.Resource = list
	return s, nil
}

// ParseResource parses the value of OTEL_RESOURCE_ATTRIBUTES: KEY=VALUE, separated by commas, with percent encoding. The last value of a
// key counts.
func ParseResource(text string) ([]traces.Attribute, error) {
	wrong := func(text string, args ...any) error {
		return fault.New(fault.InvalidFormat, text, args...).WithField(resourceVariable)
	}
	if len(text) > maxResource {
		return nil, wrong("must have at most %d bytes", maxResource)
	}
	var list []traces.Attribute
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		plainKey, keyErr := url.PathUnescape(strings.TrimSpace(key))
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || keyErr != nil || err != nil || plainKey == "" || !isPlain(plainKey) || !isPlain(plain) || strings.Contains(value, "=") {
			return nil, wrong("must be KEY=VALUE, separated by commas; others than letters and digits can be written as %%2C")
		}
		list = put(list, traces.Attribute{Key: plainKey, Value: plain})
	}
	if len(list) > maxAttributes {
		return nil, wrong("must have at most %d attributes", maxAttributes)
	}
	return list, nil
}

// isPlain reports whether a text is UTF-8 without control characters.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// put adds an attribute, or replaces the one with its key.
func put(list []traces.Attribute, a traces.Attribute) []traces.Attribute {
	at := slices.IndexFunc(list, func(other traces.Attribute) bool { return other.Key == a.Key })
	if at < 0 {
		return append(list, a)
	}
	list[at] = a
	return list
}

// attributes returns the attributes of the resource, with the names of the semantic conventions.
func (s Source) attributes() []traces.Attribute {
	list := []traces.Attribute{{Key: serviceName, Value: "orch"}}
	for _, a := range []traces.Attribute{
		{Key: "service.version", Value: s.Version}, {Key: "service.instance.id", Value: s.Instance}, {Key: "host.name", Value: s.Host},
	} {
		if a.Value != "" {
			list = append(list, a)
		}
	}
	for _, a := range s.Resource {
		list = put(list, a)
	}
	return list
}
