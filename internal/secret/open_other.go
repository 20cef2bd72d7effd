//go:build !unix

package secret

const noFollow = 0
