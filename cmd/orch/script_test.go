package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/mcp/oauthtest"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// TestMain lets the stories run this program itself, and helper programs.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"orch":    main,
		"exits":   func() { os.Exit(exits0(os.Args[1:])) },
		"asker":   func() { os.Exit(asker0()) },
		"agent":   func() { os.Exit(agent0()) },
		"natsd":   func() { os.Exit(natsd0(os.Args[1])) },
		"natspub": func() { os.Exit(natspub0(os.Args[1:])) },
		"floor":   func() { os.Exit(floor0()) },
		// the browser commands of the different systems
		"xdg-open": func() { os.Exit(browser0(os.Args[1])) },
		"open":     func() { os.Exit(browser0(os.Args[1])) },
	})
}

// exits0 runs "exits CODE COMMAND…" and returns 0 when the command ends with the code.
func exits0(args []string) int {
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		_, _ = os.Stderr.WriteString("exit code " + got + ", not " + args[0] + "\n")
		return 1
	}
	return 0
}

// asker0 is the program with one additional tool, ASK_NAME.
func asker0() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	a := newApp()
	a.nodes = newProcessNodes(os.Stderr, askName())
	return a.run(ctx, os.Args[1:])
}

// natsd0 is a NATS server with its data in a folder. The file url in the folder contains its URL and credential.
func natsd0(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: dir})
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	var auth struct{ Operator string }
	data, err := os.ReadFile(filepath.Join(server.DataDir(), "auth.json"))
	if err == nil {
		err = json.Unmarshal(data, &auth)
	}
	if err == nil {
		err = os.WriteFile(dir+".url", []byte(strings.Replace(server.Addr(), "://", "://operator:"+auth.Operator+"@", 1)), 0o600)
	}
	if err != nil {
		return 1
	}
	<-ctx.Done()
	_ = server.Close(context.WithoutCancel(ctx))
	return 0
}

type greeting struct {
	Text string `json:"text"`
}

// askName returns a tool that asks for a name and greets it. ASK_PURPOSE changes its description.
func askName() tools.Tool {
	spec := tools.Spec{Name: "ASK_NAME", Purpose: cmp.Or(os.Getenv("ASK_PURPOSE"), "test"), Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, NoWorkspace: true}
	return tools.Define(spec, func(_ context.Context, env *tools.Env, _ struct{}) (greeting, error) {
		raw, ok := env.Answer("who")
		if !ok {
			return greeting{}, &tools.Asking{Questions: []tools.Question{{Key: "who", Kind: events.Elicitation, Params: json.RawMessage(
				`{"message":"Who is it?","requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"age":{"type":"integer"}}}}`)}}}
		}
		var answer struct {
			Action  string `json:"action"`
			Content struct {
				Name string `json:"name"`
				Age  int    `json:"age"`
			} `json:"content"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return greeting{}, err
		}
		return greeting{fmt.Sprintf("%s %s %d", answer.Action, answer.Content.Name, answer.Content.Age)}, nil
	})
}

// TestStories runs every user story below testdata/script against the program.
func TestStories(t *testing.T) {
	t.Parallel()
	var files []string
	require.NoError(t, filepath.WalkDir("testdata/script", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".txtar" {
			files = append(files, path)
		}
		return err
	}))
	require.NotEmpty(t, files)
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup:               setUpStory,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor, "world": startWorld, "guarded": startGuarded, "secretless": secretless, "need": needs, "models": startModels},
	})
}

// storyTest is the key of the test that a story is.
type storyTest struct{}

// needs is the command "need PROGRAM…" of a story. It skips the story on a machine without one of the programs.
func needs(ts *testscript.TestScript, _ bool, programs []string) {
	test, _ := ts.Value(storyTest{}).(testing.TB)
	need.Program(test, programs...)
}

// setUpStory gives each story its own home, data directory and identity.
func setUpStory(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	env.Setenv("HOME", home)
	env.Values[storyTest{}] = env.T()
	env.Values[guardedKey{}] = make([]*oauthtest.Server, 1)
	env.Setenv("ORCH_DATA_DIR", filepath.Join(env.WorkDir, "data"))
	env.Setenv("ORCH_DURABILITY", "relaxed")
	env.Setenv("ORCH_HTTP", "127.0.0.1:0") // each node of a story chooses a free port
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"} {
		env.Setenv(name, "Ada")
	}
	for _, name := range []string{"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		env.Setenv(name, "ada@example.com")
	}
	return os.MkdirAll(home, 0o700)
}

// waitFor is the command "waitfor COMMAND…" of a story. It waits until the command succeeds.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	const between, patience = 50 * time.Millisecond, time.Minute
	tick := time.NewTicker(between)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		if ts.Exec(args[0], args[1:]...) == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			ts.Fatalf("%v never succeeded", args)
		}
	}
}
