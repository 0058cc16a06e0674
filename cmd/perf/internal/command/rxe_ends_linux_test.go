package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Progress: an end of -D shows on a terminal how many seconds are left, and nothing anywhere else.
func TestRXE_Progress(t *testing.T) {
	vm := needOnce(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	port := freshPort()
	args := []string{"send", "lat", "-D", "2", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := exec.Command(testutil.NeedProgram(t, "rdmaperf"), append(args, "-d", vm.Dev[1], vm.Host[0])...)
	cli.Stderr = terminal
	if err := cli.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	shown, _ := io.ReadAll(master) // until the client closes it
	if err := cli.Wait(); err != nil {
		t.Errorf("%v\n%s", err, shown)
	}
	if rc := srv.wait(t); rc != 0 || strings.Contains(srv.output(), "left") {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
	if !regexp.MustCompile(`\r2 bytes: \d+ messages, [12] s left`).Match(shown) {
		t.Errorf("the terminal has %q", shown)
	}
}

// TestRXE_ForeignGID: a GID of another network namespace is refused before anything waits, with the reason that
// show_gids and doctor have, whether it was named or chosen.
func TestRXE_ForeignGID(t *testing.T) {
	vm := needOnce(t)
	for _, args := range [][]string{{"-x", strconv.Itoa(vm.GID)}, nil, {"--ipv6"}, {"-R", "-x", strconv.Itoa(vm.GID)}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, testutil.NeedProgram(t, "rdmaperf"),
				append([]string{"write", "bw", "-d", vm.Dev[0], "-p", freshPort()}, args...)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
				!strings.Contains(string(out), "no interface here has this address") ||
				strings.Contains(string(out), "waiting") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
