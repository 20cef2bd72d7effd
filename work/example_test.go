package work_test

import (
	"fmt"

	"github.com/orch-dev/orch/work"
)

// A reference names one attempt of one call, also as text.
func ExampleRef() {
	ref := work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "build", Attempt: 2}
	fmt.Println(ref)
	again, err := work.ParseRef(ref.String())
	fmt.Println(again == ref, err)
	// Output:
	// TASK_01JD0000000000000000000000/2/build
	// true <nil>
}
