package agents_test

import (
	"fmt"
	"time"

	"github.com/orch-dev/orch/agents"
)

// The profile of an agent says what it can do. It is checked before the agent is registered.
func ExampleProfile_Check() {
	profile := agents.Profile{
		Type: "developer", Version: "1.0.0", MaxTasks: 2, Timeout: time.Minute, MaxRetries: 1, Backoff: time.Second,
		Capabilities: []agents.Capability{{Name: "review", Category: "code"}, {Name: "build", Category: "code"}},
	}
	fmt.Println(profile.Check("ada"))
	fmt.Println(profile.CapabilityNames())
	profile.Type = "poet"
	fmt.Println(profile.Check("ada"))
	// Output:
	// <nil>
	// [build review]
	// VALIDATION_ERROR: agentInfo.type: "poet" is not a type of agents
}

// A node keeps the digest of a secret, and never the secret.
func ExampleDigestOf() {
	secret := agents.NewSecret()
	fmt.Println(agents.IsSecret(secret), agents.IsSecret("hunter2"))
	digest := agents.DigestOf(secret)
	fmt.Println(digest == secret, len(digest))
	// Output:
	// true false
	// false 64
}

// The card of an agent tells other programs what it can do.
func ExampleAgentCard() {
	card := agents.AgentCard(agents.Member{
		Name:    "ada",
		Profile: agents.Profile{Type: "developer", Version: "1.0.0", Capabilities: []agents.Capability{{Name: "review", Category: "code"}}},
	}, "http://127.0.0.1:7424")
	fmt.Println(card.Name, card.Version, card.Skills[0].ID)
	// Output: ada 1.0.0 review
}
