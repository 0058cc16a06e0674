//go:build unix

package main

import "syscall"

// signalGroup signals the process group that pid leads.
func signalGroup(pid int, s syscall.Signal) error { return syscall.Kill(-pid, s) }
