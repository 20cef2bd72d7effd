//go:build unix

package secret

import "syscall"

// noFollow refuses a file that has become a link, and does not block on a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
