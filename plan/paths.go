package plan

import "strings"

// checkPaths warns of paths in the arguments of a call that begin with a relative path, whatever their expressions return. A
// call with such a path fails when the task runs.
func checkPaths(with any, info ToolInfo, at location) {
	given, _ := with.(map[string]any)
	if at.doc.warn == nil {
		return
	}
	for _, name := range info.Paths {
		text, _ := given[name].(string)
		parts, err := segments(text)
		if err != nil || text == "" || parts[0].expression || strings.HasPrefix(parts[0].text, "/") {
			continue // an error was reported when the string was compiled
		}
		at.field("with").field(name).warnIn(text, "the path "+quote(shorten(text))+" is relative: calls of "+info.Name+" take absolute paths only, and fail",
			"begin it with "+opening+" task.root "+closing+"/ or "+opening+" task.workspace "+closing+"/, or take it from an input with `format: path`")
	}
}
