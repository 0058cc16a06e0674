//go:build unix

package launch

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of a terminal away from a command: the coordinator ends it, after the agents.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminate(c *exec.Cmd) {
	syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
	syscall.Kill(-c.Process.Pid, syscall.SIGCONT) // it may be stopped
}

func kill(c *exec.Cmd) { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
