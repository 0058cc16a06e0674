//go:build unix && !linux

package main

import "syscall"

func ownGroup(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
