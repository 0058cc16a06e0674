//go:build !linux

package loop

import "runtime"

func yield() { runtime.Gosched() }
