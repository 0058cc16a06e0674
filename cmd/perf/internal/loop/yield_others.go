//go:build !linux

package engine

import "runtime"

func yield() { runtime.Gosched() }
