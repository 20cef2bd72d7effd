// Package passing has tests that pass.
package passing

// Half returns n/2 for even numbers and 0 for odd ones.
func Half(n int) int {
	if n%2 == 0 {
		return n / 2
	}
	return 0
}
