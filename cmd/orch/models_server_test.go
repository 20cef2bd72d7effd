package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
)

// startModels is the command "models" of a story: it sets MODELS to the URL of a server of models, and MODELS_KEY to its key.
func startModels(ts *testscript.TestScript, _ bool, _ []string) {
	test, ok := ts.Value(storyTest{}).(testing.TB)
	if !ok {
		ts.Fatalf("a story has no test")
	}
	ts.Setenv("MODELS", modelstest.NewServer(test, answerAsTold).URL)
	ts.Setenv("MODELS_KEY", modelstest.Key)
}

// answerAsTold answers a request by the name of its model: "mute" calls no tool, "wild" calls one that there is not, "vain" ignores results,
// "none" does not exist, "chatty" repeats the headers, "mender" does the work of the demonstration, "runaway" calls a tool for ever, and the others do
// what they are asked to do.
func answerAsTold(s modelstest.Seen) modelstest.Reply {
	body := string(s.Body)
	named := func(model string) bool { return strings.Contains(body, `"model":"`+model+`"`) }
	say := func(text string) modelstest.Reply {
		return modelstest.Reply{Answer: modelstest.Said(models.StopEnd, models.Part{Text: text})}
	}
	headers, _ := json.Marshal(s.Headers) // headers always have a form in JSON
	switch {
	case named("mender"):
		return answerAsMender(body)
	case named("runaway"):
		return callOf("FILE_READ", `{"file_path":"/nowhere"}`)
	case named("none"):
		return modelstest.Reply{Status: http.StatusNotFound, Message: "no such model; you sent " + string(headers)}
	case named("chatty"):
		return say("you sent " + string(headers))
	case !strings.Contains(body, testTool), named("mute"), strings.Contains(body, testResult) && named("vain"):
		return say("ready")
	case strings.Contains(body, testResult):
		return say("It is " + testResult + ".")
	case named("wild"):
		return callOf("RUN_AWAY", `{}`)
	case named("odd"):
		return callOf(testTool, `{"language":`)
	default:
		return callOf(testTool, `{"language":"English"}`)
	}
}

// callOf is an answer with a call.
func callOf(tool, args string) modelstest.Reply {
	return modelstest.Reply{Answer: modelstest.Said(models.StopCalls, models.Part{Call: &models.Call{ID: "call_1", Name: tool, Args: args}})}
}

// answerAsMender answers as a model that mends the project of the demonstration, by the number of the results that it has seen. Before
// it pushes, it wants to run a command that needs a person, and pushes only if it may not.
func answerAsMender(body string) modelstest.Reply {
	project := regexp.MustCompile(`The repository is ([^ ,]+),`).FindStringSubmatch(body)[1]
	calls := []struct{ tool, args string }{
		{"FILE_READ", `{"file_path":"PROJECT/add.sh"}`},
		{"BASH_EXECUTE", `{"command":"sh test.sh","working_directory":"PROJECT"}`},
		{"FILE_EDIT", `{"file_path":"PROJECT/add.sh","old_string":"$1 - $2","new_string":"$1 + $2"}`},
		{"GIT_ADD", `{"repository_path":"PROJECT","file_paths":["add.sh"]}`},
		{"GIT_COMMIT", `{"repository_path":"PROJECT","message":"fix: add"}`},
		{"BASH_EXECUTE", `{"command":"rm -rf .git","working_directory":"PROJECT"}`},
		{"GIT_PUSH", `{"repository_path":"PROJECT"}`},
	}
	seen := strings.Count(body, `"role":"tool"`)
	if seen >= len(calls) || seen == len(calls)-1 && !strings.Contains(body, "REJECTED") {
		return modelstest.Reply{Answer: modelstest.Said(models.StopEnd, models.Part{Text: "I have ended."})}
	}
	return callOf(calls[seen].tool, strings.ReplaceAll(calls[seen].args, "PROJECT", project))
}
