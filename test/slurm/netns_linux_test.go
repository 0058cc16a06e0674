package slurm

import (
	"os"

	"golang.org/x/sys/unix"
)

// enterNetwork moves the calling thread to another network namespace.
func enterNetwork(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}
