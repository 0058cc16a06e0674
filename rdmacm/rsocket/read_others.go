//go:build !linux

package rsocket

func read(int, []byte) {}
