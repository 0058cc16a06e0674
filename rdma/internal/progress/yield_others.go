//go:build !linux

package progress

import "runtime"

func yield() { runtime.Gosched() }
