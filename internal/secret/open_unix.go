//go:build unix

package secret

import "syscall"

// noFollow contains the flags for opening a resolved path: fail if it has become a link, and do not block on a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
