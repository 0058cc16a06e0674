//go:build !unix

package selftest

import "os"

// quit ends a process.
var quit = os.Kill
