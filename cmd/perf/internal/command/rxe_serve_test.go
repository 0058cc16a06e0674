package command

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// systemd is what an agent tells systemd.
type systemd struct{ *net.UnixConn }

// supervise makes programs that start believe that systemd starts them.
func supervise(t *testing.T) systemd {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return systemd{c}
}

func (s systemd) hears(t *testing.T, want string) {
	t.Helper()
	b := make([]byte, 1024)
	n, err := s.Read(b)
	if err != nil || !strings.HasPrefix(string(b[:n]), want) {
		t.Fatalf("systemd is told %q, %v; want %q", b[:n], err, want)
	}
}

// TestRXE_ServeWaits: below systemd an agent waits for its device. In a shell it fails.
func TestRXE_ServeWaits(t *testing.T) {
	vm := needOnce(t)
	t.Setenv("RDMAPERF_TOKEN", "0123456789abcdef")
	vm.SetLink(t, 1, false)
	args := []string{"serve", "-d", vm.Dev[1], "-p", freshPort()}
	if p := start(t, "rdmaperf", args...); p.wait(t) != exitFailure {
		t.Errorf("without systemd: %s", p.output())
	}
	s := supervise(t)
	p := start(t, "rdmaperf", args...)
	s.hears(t, "READY=1\nSTATUS=waiting: ")
	vm.SetLink(t, 1, true)
	s.hears(t, "READY=1\nSTATUS=ready")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil || p.wait(t) != exitOK {
		t.Errorf("%v\n%s", err, p.output())
	}
	s = supervise(t)
	p = start(t, "rdmaperf", "serve", "-d", "none", "-p", freshPort())
	s.hears(t, "READY=1\nSTATUS=waiting: ")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil || p.wait(t) != exitOK {
		t.Errorf("while it waits: %v\n%s", err, p.output())
	}
}

// TestRXE_ServeToken: SIGHUP makes an agent read its token again. One that is wrong changes nothing.
func TestRXE_ServeToken(t *testing.T) {
	vm := needOnce(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0123456789abcdef")
	port := freshPort()
	srv := start(t, "rdmaperf", "serve", "-d", vm.Dev[0], "-p", port, "--token-file", file)
	listening(t, srv, port)
	client := func(token string) int {
		t.Setenv("RDMAPERF_TOKEN", token)
		return start(t, "rdmaperf", "send", "bw", "-n", "5", "-s", "64", "-d", vm.Dev[1], "--agent", port,
			vm.Host[0]).wait(t)
	}
	for _, tt := range []struct {
		file, says string
		good, bad  string
	}{
		{"fedcba9876543210", "read the token again", "fedcba9876543210", "0123456789abcdef"},
		{"short", "the token stays as it was", "fedcba9876543210", "short"},
	} {
		write(tt.file)
		if err := srv.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		says(t, srv, tt.says)
		if rc := client(tt.good); rc != exitOK {
			t.Errorf("%s: the right token has exit code %d\n%s", tt.file, rc, srv.output())
		}
		if rc := client(tt.bad); rc != exitFailure {
			t.Errorf("%s: a wrong token has exit code %d", tt.file, rc)
		}
	}
}
