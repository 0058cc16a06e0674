// Package secure reads the environment safely in programs that have more privileges than their
// caller: those that are setuid or setgid, or have file capabilities. In these, a variable that
// chooses code or files would give the privileges to the caller.
package secure

import (
	"os"
	"sync"
)

// Why describes such a program, for messages.
const Why = "this program has more rights than its caller (setuid, setgid or file capabilities)"

// Mode reports whether this program was started with more privileges than its caller has. The
// kernel reports that in AT_SECURE; Mode is true if that cannot be read.
var Mode = sync.OnceValue(mode)

// Getenv returns an environment variable that chooses code or files. It returns "" in a program
// with more privileges than its caller.
func Getenv(key string) string {
	if v := os.Getenv(key); v == "" || !Mode() {
		return v
	}
	return ""
}
