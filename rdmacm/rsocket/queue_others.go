//go:build !linux

package rsocket

func sockets() map[string]int { return nil }

func isQueue(int) bool { return false }
