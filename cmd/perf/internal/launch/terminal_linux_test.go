package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// asks reads a line from the terminal, as ssh does for an unknown host, in the background of the shell.
const asks = `(printf 'sure? ' >/dev/tty; read a </dev/tty; echo "got:$a" >/dev/tty) & wait; : "$@"`

const roleEnv = "LAUNCH_TEST_ROLE"

// TestMain is also rdmaperf mesh below a terminal of TestTerminal.
func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "background":
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), roleEnv+"=foreground")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Run(); err != nil {
			fmt.Println(err)
		}
	case "foreground":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		l, err := Start(asks, nil, nil, func(line string) bool { fmt.Println(line); return true })
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ended:", <-l.Ended)
		l.Stop(context.Background(), 0)
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
		fmt.Println("back:", group == unix.Getpgrp(), err)
		select {
		case <-stop:
			fmt.Println("interrupted")
		case <-time.After(100 * time.Millisecond):
		}
	}
	os.Exit(0)
}

// TestTerminal: a launcher can ask on the terminal, which this process has again afterwards. An interrupt of the
// launcher is one of this process. In the background, the launcher ends with a reason.
func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		role, at, types string
		want, not       []string
	}{
		{"foreground", "sure?", "yes\n", []string{"got:yes", "ended: <nil>", "back: true"}, []string{"interrupted"}},
		{"foreground", "sure?", "\x03", []string{"ended: signal: interrupt", "back: true", "interrupted"},
			[]string{"got:"}},
		{"background", "", "", []string{"ended: it asks on the terminal", "start rdmaperf mesh in the foreground"},
			nil},
	} {
		master, slave := openPTY(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"="+c.role)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		var mu sync.Mutex
		var said strings.Builder
		all := func() string {
			mu.Lock()
			defer mu.Unlock()
			return said.String()
		}
		go func() {
			b := make([]byte, 1024)
			for {
				n, err := master.Read(b)
				mu.Lock()
				said.Write(b[:n])
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
		if c.types != "" {
			testutil.Eventually(t, "the launcher asks, and has the terminal", func() bool {
				group, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPGRP)
				return strings.Contains(all(), c.at) && err == nil && group != cmd.Process.Pid
			})
			io.WriteString(master, c.types)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", c.role, err)
			}
		case <-time.After(testutil.Patience):
			t.Errorf("%s, %q: it does not end:\n%s", c.role, c.types, all())
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		for _, want := range c.want {
			testutil.Eventually(t, fmt.Sprintf("%s, %q: %s", c.role, c.types, want), func() bool {
				return strings.Contains(all(), want)
			})
		}
		for _, not := range c.not {
			if strings.Contains(all(), not) {
				t.Errorf("%s, %q: %s", c.role, c.types, all())
			}
		}
		master.Close()
	}
}

// openPTY opens a new terminal.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
