package main

import (
	"encoding/json"
	"net/http"
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
// "none" does not exist, "chatty" repeats the headers, and the others do what they are asked to do.
func answerAsTold(s modelstest.Seen) modelstest.Reply {
	body := string(s.Body)
	named := func(model string) bool { return strings.Contains(body, `"model":"`+model+`"`) }
	say := func(text string) modelstest.Reply {
		return modelstest.Reply{Answer: modelstest.Said(models.StopEnd, models.Part{Text: text})}
	}
	headers, _ := json.Marshal(s.Headers) // headers always have a form in JSON
	switch {
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
