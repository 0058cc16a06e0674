package testutil

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// Enter runs this test binary again, in namespaces of its own: network, mounts, processes, and those of the flags for
// unshare. They end with it. within is the command in front of the binary, if there is one, and env is added to the
// environment. Enter returns the exit status for TestMain.
func Enter(flags, within []string, env string) int {
	c := exec.Command("unshare", slices.Concat([]string{"-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"}, flags,
		within, os.Args)...)
	c.Env = append(os.Environ(), env)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil {
		return 1
	}
	return 0
}
