package shell_test

import (
	"fmt"

	"github.com/orch-dev/orch/classify/shell"
)

// A command that only reads, or writes in the workspace of its task, is harmless. What nobody knows is not.
func ExampleClassify() {
	in := shell.Context{Dir: "/src", Workspace: "/src/Working/TASK_1"}
	for _, command := range []string{"git log --oneline | head -5", "rm -rf build", "vim notes.md"} {
		c := shell.Classify(command, in)
		fmt.Printf("%t %t %q\n", c.Destructive, c.Interactive, c.Reason)
	}
	// Output:
	// false false ""
	// true false "the program rm is not known to be harmless"
	// false true "vim waits for a person"
}

// The operands of a read-only command are the paths that it would open.
func ExampleReadOnlyArgs() {
	operands, err := shell.ReadOnlyArgs("grep", []string{"-r", "TODO", "docs"})
	fmt.Println(operands[0].Path, operands[0].Arg, err)
	_, err = shell.ReadOnlyArgs("sed", []string{"-i", "s/a/b/", "notes.md"})
	fmt.Println(err != nil)
	// Output:
	// docs 2 <nil>
	// true
}

func ExamplePlainCall() {
	fmt.Println(shell.PlainCall("./deploy.sh --dry-run 'two words'"))
	fmt.Println(shell.PlainCall("./deploy.sh && rm -r build"))
	// Output:
	// [./deploy.sh --dry-run two words] true
	// [] false
}
