package main

import "syscall"

// ownGroup starts a process in a group of its own, and ends it with the thread that started it.
func ownGroup(follows bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if follows {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
