package agents

import (
	"cmp"
	"slices"
)

// Card is an agent card of A2A 1.0: a description of an agent and its skills. It is only for discovery. The node does
// not implement A2A, so the list of interfaces is empty, and an extension describes where and how to request work.
type Card struct {
	Name                 string                `json:"name"`
	Description          string                `json:"description"`
	SupportedInterfaces  []struct{}            `json:"supportedInterfaces"`
	Version              string                `json:"version"`
	DocumentationURL     string                `json:"documentationUrl"`
	Capabilities         CardCapabilities      `json:"capabilities"`
	SecuritySchemes      map[string]CardScheme `json:"securitySchemes"`
	SecurityRequirements []CardRequirement     `json:"securityRequirements"`
	DefaultInputModes    []string              `json:"defaultInputModes"`
	DefaultOutputModes   []string              `json:"defaultOutputModes"`
	Skills               []CardSkill           `json:"skills"`
}

// CardCapabilities lists the supported parts of A2A: only the extensions.
type CardCapabilities struct {
	Streaming         bool            `json:"streaming"`
	PushNotifications bool            `json:"pushNotifications"`
	Extensions        []CardExtension `json:"extensions"`
}

// CardExtension describes how to request work without A2A.
type CardExtension struct {
	URI         string            `json:"uri"`
	Description string            `json:"description"`
	Required    bool              `json:"required"`
	Params      map[string]string `json:"params"`
}

// CardScheme is an authentication scheme.
type CardScheme struct {
	HTTPAuth CardHTTPAuth `json:"httpAuthSecurityScheme"`
}

// CardHTTPAuth is a scheme of the Authorization header.
type CardHTTPAuth struct {
	Description string `json:"description"`
	Scheme      string `json:"scheme"`
}

// CardRequirement names schemes that are all required.
type CardRequirement struct {
	Schemes map[string]CardScopes `json:"schemes"`
}

// CardScopes are the required scopes of a scheme.
type CardScopes struct {
	List []string `json:"list"`
}

// CardSkill is a skill of an agent.
type CardSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

const (
	// CardPath is the path of a node's card.
	CardPath = "/.well-known/agent-card.json"
	// AgentCardPath is the path of an agent's card; {name} is its name.
	AgentCardPath = "/agents/{name}/agent-card.json"

	cardDocs      = "https://github.com/orch-dev/orch/blob/main/docs/reference/agents.md"
	cardExtension = cardDocs + "#agent-cards"
)

// NodeCard returns the card of a node that serves HTTP at url, a URL without a path.
func NodeCard(url, version string) Card {
	c := newCard(url, "orch_submit")
	c.Name, c.Version = "orch", cmp.Or(version, "0")
	c.Description = "Runs plans of tool calls as durable tasks, asks people for approval, and hands work to registered agents."
	c.Skills = []CardSkill{
		{"plans", "Plans", "Run a plan of tool calls: with dependencies, retries, approvals and a log that can be replayed.", []string{"workflow", "durable"}},
		{"tools", "Tools", "Call the tools that the token may call, each as a task.", []string{"mcp", "tools"}},
		{"agents", "Agents", "Hand work to registered agents by what they can do.", []string{"agents", "delegation"}},
	}
	return c
}

// AgentCard returns the card of a registered agent, with its capabilities as skills.
func AgentCard(m Member, url string) Card {
	c := newCard(url, "AGENT_TASK")
	c.Name, c.Version = m.Name, cmp.Or(m.Version, "0")
	c.Description = cmp.Or(m.Description, "A "+m.Type+" that takes work from orch.")
	c.Capabilities.Extensions[0].Params["agent"] = m.Name
	c.Skills = []CardSkill{}
	for _, capability := range m.Capabilities {
		c.Skills = append(c.Skills, CardSkill{capability.Name, capability.Name, capability.Category + ": " + capability.Name, slices.Compact([]string{capability.Category, m.Type})})
	}
	return c
}

func newCard(url, tool string) Card {
	return Card{
		SupportedInterfaces: []struct{}{}, DocumentationURL: cardDocs,
		Capabilities: CardCapabilities{Extensions: []CardExtension{{
			URI: cardExtension, Required: true,
			Description: "Work is asked for by the Model Context Protocol: call the tool at the url.",
			Params:      map[string]string{"url": url + "/mcp", "protocol": "mcp", "tool": tool},
		}}},
		SecuritySchemes:      map[string]CardScheme{"token": {CardHTTPAuth{"A token of the node (orch token create).", "Bearer"}}},
		SecurityRequirements: []CardRequirement{{map[string]CardScopes{"token": {[]string{}}}}},
		DefaultInputModes:    []string{"application/json"}, DefaultOutputModes: []string{"application/json"},
	}
}
