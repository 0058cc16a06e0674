//go:build !linux

package nldev

import "syscall"

func with[T any](func(exchange) (T, error)) (none T, _ error) { return none, syscall.ENOSYS }
