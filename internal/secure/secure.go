// Package secure reads the environment as a program must that has more rights
// than whoever started it: one that is setuid or setgid, or whose file has
// capabilities. There a variable that chooses code or files would lend these
// rights to the caller.
package secure

import (
	"os"
	"sync"
)

// Why says what is special about such a program, for messages.
const Why = "this program has more rights than its caller (setuid, setgid or file capabilities)"

// Mode reports whether this program was started with more rights than its
// caller has, as the kernel tells by AT_SECURE. It is true where nothing tells.
var Mode = sync.OnceValue(mode)

// Getenv returns an environment variable that chooses code or files: "" in a
// program with more rights than its caller.
func Getenv(key string) string {
	if v := os.Getenv(key); v == "" || !Mode() {
		return v
	}
	return ""
}
