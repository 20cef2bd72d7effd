// Package fixture is tested by TEST_EXECUTE.
package fixture

// Sign returns -1, 0 or 1.
func Sign(n int) int {
	if n < 0 {
		return -1
	}
	if n > 0 {
		return 1
	}
	return 0
}
