package main

import (
	"errors"
	"syscall"
)

// The tiers run on Linux only; elsewhere they just build.

func ownGroup(bool) *syscall.SysProcAttr { return nil }

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }
