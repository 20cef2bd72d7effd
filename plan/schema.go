package plan

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed plan.schema.json
var schemaSource string

//go:embed skeleton.yaml
var skeletonSource string

// Schema returns the JSON Schema (2020-12) of the plan format, for editors. [Parse] checks more.
func Schema() []byte { return []byte(schemaSource) }

// Skeleton returns a commented plan to start from, in YAML. The default name is my-plan.
func Skeleton(name string) []byte {
	if name == "" {
		name = "my-plan"
	}
	return []byte(strings.Replace(skeletonSource, "my-plan", strconv.Quote(name), 1))
}
