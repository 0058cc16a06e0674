//go:build !linux

package rdma

import "runtime"

func yield() { runtime.Gosched() }
