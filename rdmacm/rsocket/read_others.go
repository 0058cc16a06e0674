//go:build !linux

package rsocket

func read(uintptr, []byte) {}
