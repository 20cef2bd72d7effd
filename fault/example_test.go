package fault_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/orch-dev/orch/fault"
)

// An error has a code that programs read, a field at fault and a next step.
func ExampleNew() {
	err := fault.New(fault.ValidationError, "must be at least %d", 1).WithField("limit").WithHint("leave it out for the default")
	fmt.Println(err)
	fmt.Println(err.Code, err.Field, err.Hint)
	// Output:
	// VALIDATION_ERROR: limit: must be at least 1
	// VALIDATION_ERROR limit leave it out for the default
}

// The cause of a wrapped error is for the log alone.
func ExampleWrap() {
	err := fault.Wrap(fault.ExecFailed, errors.New("exit status 2"), "the build failed")
	fmt.Println(err)
	fmt.Println(errors.Unwrap(err))
	// Output:
	// EXEC_FAILED: the build failed
	// exit status 2
}

// Errors of the file system have codes of their own.
func ExampleFrom() {
	err := fault.From(&fs.PathError{Op: "open", Path: "notes.md", Err: fs.ErrNotExist})
	fmt.Println(err.Code, fault.Has(err, fault.NotFound))
	// Output: NOT_FOUND true
}
