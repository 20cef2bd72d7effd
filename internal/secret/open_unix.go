//go:build unix

package secret

import "syscall"

// noFollow refuses a file that became a link, and does not wait for the other end of a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
