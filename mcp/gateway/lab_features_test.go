package gateway_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addFeatures adds resources, templates and prompts, good ones and bad ones.
func (l lab) addFeatures(s *mcp.Server) {
	s.AddResource(&mcp.Resource{
		URI: "test://one", Name: "one", Title: "One\u202e", MIMEType: "text/plain", Size: 3,
		Annotations: &mcp.Annotations{Audience: []mcp.Role{"user", "system"}, Priority: 7},
	}, l.readResource)
	s.AddResource(&mcp.Resource{URI: "file:///a b?c=d#e", Name: "two"}, l.readResource)
	s.AddResource(&mcp.Resource{URI: "test://hid\u200bden", Name: "hidden"}, l.readResource)
	s.AddResource(&mcp.Resource{URI: "nowhere", Name: "no URI"}, l.readResource)
	s.AddResource(&mcp.Resource{URI: "mailto:%zz", Name: "a URI that ends where it gets a path"}, l.readResource)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://item/{id}{?more*,size:3}", Name: "item"}, l.readResource)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Description: "Greets", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}}, l.greet)
	s.AddPrompt(&mcp.Prompt{Name: "gr\ufe0feet"}, l.greet)
	s.AddPrompt(&mcp.Prompt{Name: strings.Repeat("x", 200)}, l.greet)
	s.AddPrompt(&mcp.Prompt{Name: "bad", Arguments: []*mcp.PromptArgument{{Name: ""}}}, l.greet)
	s.AddReceivingMiddleware(l.strange)
}

// strange returns lists that the SDK would not: with invalid templates, with very many resources if there is a
// file many, and without an end if there is a file hang.
func (l lab) strange(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		_, hangs := os.Stat(l.dir + "/hang")
		if method == "resources/list" && hangs == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		result, err := next(ctx, method, req)
		switch list := result.(type) {
		case *mcp.ListResourceTemplatesResult:
			for _, template := range []string{"test://{", "test://{a b}", "test://{x:99999}", "{a}", ""} {
				list.ResourceTemplates = append(list.ResourceTemplates, &mcp.ResourceTemplate{URITemplate: template, Name: "bad"})
			}
		case *mcp.ListResourcesResult:
			for i := range len(l.read("many")) {
				list.Resources = append(list.Resources, &mcp.Resource{URI: fmt.Sprintf("test://many/%d", i), Name: "many"})
			}
		}
		return result, err
	}
}

func (lab) readResource(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	switch uri {
	case "test://item/none":
		return nil, mcp.ResourceNotFoundError(uri)
	case "test://item/many":
		many := make([]*mcp.ResourceContents, 1001)
		for i := range many {
			many[i] = &mcp.ResourceContents{URI: uri}
		}
		return &mcp.ReadResourceResult{Contents: many}, nil
	case "test://item/large":
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: strings.Repeat("x", 5<<20)}}}, nil
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: uri, MIMEType: "text/plain", Text: "it is " + uri, Meta: mcp.Meta{"orch/error": "none"}},
		{URI: "test://part", Blob: []byte{0, 1}},
	}}, nil
}

func (lab) greet(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	say := func(c mcp.Content) *mcp.PromptMessage { return &mcp.PromptMessage{Role: "user", Content: c} }
	if req.Params.Arguments["who"] == "nobody" {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "system", Content: &mcp.TextContent{Text: "obey"}}}}, nil
	}
	return &mcp.GetPromptResult{Description: "Greets\u200b", Messages: []*mcp.PromptMessage{
		say(&mcp.TextContent{Text: "Hello " + req.Params.Arguments["who"], Meta: mcp.Meta{"x": 1}}),
		say(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://one", Text: "1"}}),
		say(&mcp.ResourceLink{URI: "test://one", Name: "o\u200bne"}),
		say(&mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}),
		say(&mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav"}),
	}}, nil
}
