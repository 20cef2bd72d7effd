package gateway

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/unseen"
)

// Kind is the kind of a feature.
type Kind string

// The kinds of features.
const (
	Resource Kind = "resource"
	Template Kind = "template"
	Prompt   Kind = "prompt"
)

// Feature is a resource, template or prompt of a server. It can be sent to other processes as JSON.
type Feature struct {
	Kind   Kind   `json:"kind"`
	Server string `json:"server"`
	// Key is the URI, URI template or name of the feature at the server.
	Key string `json:"key"`
	// Definition is a Resource, ResourceTemplate or Prompt of MCP, with the URI or name of the feature in orch.
	Definition json.RawMessage `json:"definition"`
}

// URIPrefix is the prefix of URIs in orch of resources of servers. It is followed by the name of the server, a slash, and the URI at
// the server.
const URIPrefix = "orch://server/"

// OutsideURI returns the URI in orch of a resource or template with the given URI at a server.
func OutsideURI(server, uri string) string { return URIPrefix + server + "/" + uri }

// OutsidePrompt returns the name in orch of a prompt with the given name at a server.
func OutsidePrompt(server, name string) string { return server + "__" + name }

const (
	// maxURI is the most bytes of a URI.
	maxURI = 2048
	// maxArguments is the most arguments of a prompt.
	maxArguments = 100
	// maxContents is the most contents of a resource. Each gets a URI of orch, which may be longer than the content.
	maxContents = 1000
)

// featureOf parses the definition of a feature. It returns VALIDATION_ERROR, and a feature with only its Key, if the feature cannot
// be offered.
func featureOf(server string, kind Kind, raw json.RawMessage) (Feature, error) {
	f := Feature{Kind: kind, Server: server}
	var clean any
	var err error
	switch kind {
	case Resource:
		clean, err = resourceOf(server, raw, &f.Key)
	case Template:
		clean, err = templateOf(server, raw, &f.Key)
	case Prompt:
		clean, err = promptOf(server, raw, &f.Key)
	}
	if err != nil {
		return f, err
	}
	f.Definition = encode(clean)
	return f, nil
}

func resourceOf(server string, raw json.RawMessage, key *string) (*mcp.Resource, error) {
	var decoded mcp.Resource
	if json.Unmarshal(raw, &decoded) != nil {
		return nil, notOfferable("its definition is not valid")
	}
	*key = decoded.URI
	if hasInvisible(decoded.URI) || hasInvisible(decoded.Name) {
		return nil, notOfferable("it holds hidden characters")
	}
	if !isURI(decoded.URI) || !isURI(OutsideURI(server, decoded.URI)) {
		return nil, notOfferable("its URI is not valid")
	}
	return &mcp.Resource{
		URI: OutsideURI(server, decoded.URI), Name: escape(decoded.Name, maxTitle), Title: escape(decoded.Title, maxTitle),
		Description: escape(decoded.Description, maxDescription), MIMEType: escape(decoded.MIMEType, maxTitle), Size: max(decoded.Size, 0),
		Annotations: annotationsOf(decoded.Annotations),
	}, nil
}

func templateOf(server string, raw json.RawMessage, key *string) (*mcp.ResourceTemplate, error) {
	var decoded mcp.ResourceTemplate
	if json.Unmarshal(raw, &decoded) != nil {
		return nil, notOfferable("its definition is not valid")
	}
	*key = decoded.URITemplate
	if hasInvisible(decoded.URITemplate) || hasInvisible(decoded.Name) {
		return nil, notOfferable("it holds hidden characters")
	}
	if !isTemplate(decoded.URITemplate) {
		return nil, notOfferable("its template is not valid")
	}
	return &mcp.ResourceTemplate{
		URITemplate: OutsideURI(server, decoded.URITemplate), Name: escape(decoded.Name, maxTitle), Title: escape(decoded.Title, maxTitle),
		Description: escape(decoded.Description, maxDescription), MIMEType: escape(decoded.MIMEType, maxTitle), Annotations: annotationsOf(decoded.Annotations),
	}, nil
}

func promptOf(server string, raw json.RawMessage, key *string) (*mcp.Prompt, error) {
	var decoded mcp.Prompt
	if json.Unmarshal(raw, &decoded) != nil {
		return nil, notOfferable("its definition is not valid")
	}
	*key = decoded.Name
	clean := &mcp.Prompt{
		Name: OutsidePrompt(server, decoded.Name), Title: escape(decoded.Title, maxTitle), Description: escape(decoded.Description, maxDescription),
	}
	switch {
	case hasInvisible(decoded.Name):
		return nil, notOfferable("it holds hidden characters")
	case decoded.Name == "" || len(clean.Name) > maxName:
		return nil, notOfferable("its name is not valid")
	case len(decoded.Arguments) > maxArguments:
		return nil, notOfferable("it has more than 100 arguments")
	}
	for _, a := range decoded.Arguments {
		if a == nil || a.Name == "" || len(a.Name) > maxName || hasInvisible(a.Name) {
			return nil, notOfferable("the name of an argument is not valid, or has hidden characters")
		}
		clean.Arguments = append(clean.Arguments, &mcp.PromptArgument{
			Name: a.Name, Title: escape(a.Title, maxTitle), Description: escape(a.Description, maxDescription), Required: a.Required,
		})
	}
	return clean, nil
}

func notOfferable(why string) error { return fault.New(fault.ValidationError, "%s", why) }

// hasInvisible reports whether a name contains invisible characters, including line breaks and variation selectors.
func hasInvisible(name string) bool {
	return unseen.In(name) || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.Is(unicode.Variation_Selector, r)
	})
}

func isURI(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && len(text) <= maxURI
}

// isTemplate reports whether a text is a URI template (RFC 6570).
func isTemplate(text string) bool {
	const variable = `[A-Za-z0-9_%]+(\.[A-Za-z0-9_%]+)*(\*|:[1-9][0-9]{0,3})?`
	ok, err := regexp.MatchString(`^[A-Za-z][A-Za-z0-9+.-]*:([^{}]|\{[+#./;?&]?`+variable+`(,`+variable+`)*\})+$`, text)
	return ok && err == nil && len(text) <= maxURI
}

// annotationsOf returns annotations with escaped texts, and only the roles that MCP defines.
func annotationsOf(raw *mcp.Annotations) *mcp.Annotations {
	if raw == nil {
		return nil
	}
	clean := &mcp.Annotations{LastModified: escape(raw.LastModified, maxTitle), Priority: min(max(raw.Priority, 0), 1)}
	for _, role := range []mcp.Role{"user", "assistant"} {
		if slices.Contains(raw.Audience, role) {
			clean.Audience = append(clean.Audience, role)
		}
	}
	return clean
}

// contentsOf returns the result of reading a resource, with URIs of orch and only the fields that MCP defines. It returns
// TOOL_FAILED for an invalid result.
func contentsOf(server, uri string, raw json.RawMessage) (json.RawMessage, error) {
	var decoded mcp.ReadResourceResult
	if json.Unmarshal(raw, &decoded) != nil || decoded.Contents == nil {
		return nil, fault.New(fault.ToolFailed, "%s returned no contents of a resource", server)
	}
	if len(decoded.Contents) > maxContents {
		return nil, fault.New(fault.ToolFailed, "%s returned more than %d contents of a resource", server, maxContents).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	var clean struct {
		Contents []*mcp.ResourceContents `json:"contents"`
	}
	clean.Contents = []*mcp.ResourceContents{}
	for _, c := range decoded.Contents {
		if c == nil {
			return nil, fault.New(fault.ToolFailed, "%s returned no contents of a resource", server)
		}
		if c.URI == "" {
			c.URI = uri
		}
		clean.Contents = append(clean.Contents, embeddedOf(server, c))
	}
	return encode(clean), nil
}

func embeddedOf(server string, c *mcp.ResourceContents) *mcp.ResourceContents {
	return &mcp.ResourceContents{URI: OutsideURI(server, escape(c.URI, maxURI)), MIMEType: escape(c.MIMEType, maxTitle), Text: c.Text, Blob: c.Blob}
}

// messagesOf returns the result of getting a prompt, with URIs of orch and only the fields that MCP defines. It returns TOOL_FAILED
// for an invalid result.
func messagesOf(server string, raw json.RawMessage) (json.RawMessage, error) {
	var decoded mcp.GetPromptResult
	if json.Unmarshal(raw, &decoded) != nil {
		return nil, noPrompt(server)
	}
	clean := &mcp.GetPromptResult{Description: escape(decoded.Description, maxDescription), Messages: []*mcp.PromptMessage{}}
	for _, m := range decoded.Messages {
		if m == nil || m.Role != "user" && m.Role != "assistant" {
			return nil, noPrompt(server)
		}
		content, ok := contentOf(server, m.Content)
		if !ok {
			return nil, noPrompt(server)
		}
		clean.Messages = append(clean.Messages, &mcp.PromptMessage{Role: m.Role, Content: content})
	}
	return encode(clean), nil
}

func noPrompt(server string) error {
	return fault.New(fault.ToolFailed, "%s returned no messages of a prompt", server)
}

// contentOf returns a content block of a prompt, with URIs of orch. It returns false for a type that prompts must not contain.
func contentOf(server string, block mcp.Content) (mcp.Content, bool) {
	switch c := block.(type) {
	case *mcp.TextContent:
		return &mcp.TextContent{Text: c.Text, Annotations: annotationsOf(c.Annotations)}, true
	case *mcp.ImageContent:
		return &mcp.ImageContent{Data: c.Data, MIMEType: escape(c.MIMEType, maxTitle), Annotations: annotationsOf(c.Annotations)}, true
	case *mcp.AudioContent:
		return &mcp.AudioContent{Data: c.Data, MIMEType: escape(c.MIMEType, maxTitle), Annotations: annotationsOf(c.Annotations)}, true
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return nil, false
		}
		return &mcp.EmbeddedResource{Resource: embeddedOf(server, c.Resource), Annotations: annotationsOf(c.Annotations)}, true
	case *mcp.ResourceLink:
		return &mcp.ResourceLink{
			URI: OutsideURI(server, escape(c.URI, maxURI)), Name: escape(c.Name, maxTitle), Title: escape(c.Title, maxTitle),
			Description: escape(c.Description, maxDescription), MIMEType: escape(c.MIMEType, maxTitle), Size: c.Size, Annotations: annotationsOf(c.Annotations),
		}, true
	default:
		return nil, false
	}
}
