// Package skills has the skill that teaches agents to use orch, in the format of agent skills: a folder with a SKILL.md.
package skills

import _ "embed"

// Orch is the text of the skill orch, the file SKILL.md in the folder orch.
//
//go:embed orch/SKILL.md
var Orch string
