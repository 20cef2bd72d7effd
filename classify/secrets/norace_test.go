//go:build !race

package secrets_test

// smaller divides the sizes of texts.
const smaller = 1
