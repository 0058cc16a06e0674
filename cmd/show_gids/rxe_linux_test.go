package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// command runs a program; as nobody when asked to.
func command(t *testing.T, nobody bool, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(testutil.NeedProgram(t, args[0]), args[1:]...)
	if nobody {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return string(out), err
}

var devinfoGID = regexp.MustCompile(`(?m)^\s*GID\[\s*(\d+)\]:\s*(\S+?),?(?: (RoCE v\d|IB.*))?$`)

// devinfoGIDs returns what the stock tool lists: index, address in short form, type.
func devinfoGIDs(t *testing.T, dev string) []string {
	t.Helper()
	out, err := command(t, false, "ibv_devinfo", "-v", "-d", dev)
	if err != nil {
		t.Fatal(err)
	}
	var gids []string
	for _, m := range devinfoGID.FindAllStringSubmatch(out, -1) {
		// it writes RoCE v1's in full
		gids = append(gids, fmt.Sprintf("%s %s %s", m[1], netip.MustParseAddr(m[2]), m[3]))
	}
	if len(gids) == 0 {
		t.Fatalf("ibv_devinfo lists no GID of %s:\n%s", dev, out)
	}
	return gids
}

func TestRXE_ShowGIDs(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--json"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("code %d, stderr %s", code, &stderr)
	}
	var rows struct {
		GIDs []struct {
			Device, GID, Version, State string
			Port, Index                 int
			IP, Netdev                  string
			NetdevUp                    bool  `json:"netdev_up"`
			Rate                        int64 `json:"rate_bits_per_second"`
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	for i, dev := range rxe.Dev {
		var got []string
		found := false
		for _, g := range rows.GIDs {
			if g.Device != dev {
				continue
			}
			addr := g.IP
			if strings.Contains(addr, ".") {
				addr = "::ffff:" + addr
			}
			got = append(got, fmt.Sprintf("%d %s %s", g.Index, addr, strings.Replace(g.Version, "RoCEv", "RoCE v", 1)))
			if !strings.HasPrefix(g.Netdev, rxe.Net[i]) || g.State != "ACTIVE" || !g.NetdevUp ||
				g.Port != int(rxe.Port) || g.Rate == 0 {
				t.Errorf("%s: %+v", dev, g)
			}
			if g.Index == rxe.GID {
				found = g.IP == rxe.IP[i] && g.Version == "RoCEv2"
			}
		}
		if !found {
			t.Errorf("%s: index %d is not %s, RoCEv2", dev, rxe.GID, rxe.IP[i])
		}
		if d := cmp.Diff(devinfoGIDs(t, dev), got); d != "" {
			t.Errorf("%s (-ibv_devinfo +ours):\n%s", dev, d)
		}
		stdout.Reset()
		if code := run(t.Context(), []string{"--best", "-d", dev}, &stdout, &stderr); code != 0 ||
			stdout.String() != fmt.Sprintln(rxe.GID) {
			t.Errorf("best of %s: code %d, %q, want %d", dev, code, stdout.String(), rxe.GID)
		}
		stdout.Reset() // who sends to an address of his own comes from there
		if code := run(t.Context(), []string{"--best", "--json", "--to", rxe.IP[i]}, &stdout, &stderr); code != 0 ||
			!strings.Contains(stdout.String(), fmt.Sprintf("%q: %q", "device", dev)) ||
			!strings.Contains(stdout.String(), fmt.Sprintf("%q: %q", "ip", rxe.IP[i])) {
			t.Errorf("best to %s: code %d, %s", rxe.IP[i], code, &stdout)
		}
	}
	stdout.Reset()
	run(t.Context(), []string{"--format=mlnx"}, &stdout, &stderr)
	a := netip.MustParseAddr(rxe.IP[0]).As4()
	line := fmt.Sprintf("%s\t1\t%d\t0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\t%s  \tv2\t%s\n", rxe.Dev[0],
		rxe.GID, a[0], a[1], a[2], a[3], rxe.IP[0], rxe.Net[0])
	if want := fmt.Sprintf("\nn_gids_found=%d\n", len(rows.GIDs)); !strings.HasSuffix(stdout.String(), want) ||
		!strings.Contains(stdout.String(), line) {
		t.Errorf("mlnx: got %q, want %q at the end", stdout.String(), want)
	}
	stdout.Reset()
	run(t.Context(), nil, &stdout, &stderr)
	t.Logf("the table:\n%s", &stdout)
}

// Listing needs no permission: neither to be root nor to open the device.
func TestRXE_ShowGIDs_Nobody(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // modes of device files
	nodes, err := filepath.Glob("/dev/infiniband/uverbs*")
	if err != nil || len(nodes) == 0 {
		t.Fatalf("no device nodes: %v", err)
	}
	for _, n := range nodes {
		st, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(n, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(n, st.Mode().Perm()) })
	}
	if out, err := command(t, true, "ibv_devinfo", "-d", rxe.Dev[0]); err == nil {
		t.Fatalf("nobody can open %s, so this test shows nothing:\n%s", rxe.Dev[0], out)
	}
	for _, args := range [][]string{{"show_gids"}, {"show_gids", "--json"}, {"show_gids", "--format=mlnx"},
		{"show_gids", "--best", "-d", rxe.Dev[1]}} {
		want, err := command(t, false, args...)
		if err != nil || want == "" {
			t.Fatalf("as root: %v, %q", err, want)
		}
		got, err := command(t, true, args...)
		if err != nil || got != want {
			t.Errorf("%v as nobody: %v, %q; want %q", args, err, got, want)
		}
	}
}

// TestRXE_ShowGIDs_OtherNamespace: a network namespace without interfaces has no address of a GID, and sees them all.
func TestRXE_ShowGIDs_OtherNamespace(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	in := func(args ...string) (string, string, error) {
		cmd := exec.Command(testutil.NeedProgram(t, "show_gids"), args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		return string(out), stderr.String(), err
	}
	out, _, err := in("--why", "-d", rxe.Dev[0])
	n := strings.Count(out, "no: no interface here has this address\n")
	if err != nil || n != strings.Count(out, "\n")-1 {
		t.Errorf("--why: %v, %s", err, out)
	}
	for _, flag := range []string{"--best", "--up"} {
		var exit *exec.ExitError
		out, stderr, err := in(flag, "-d", rxe.Dev[0])
		if !errors.As(err, &exit) || exit.ExitCode() != exitNothing || out != "" || stderr == "" {
			t.Errorf("%s: %v, %q, %q", flag, err, out, stderr)
		}
	}
}

// TestRXE_ShowGIDs_Watch adds and removes an address, as the kernel's table shows it.
func TestRXE_ShowGIDs_Watch(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t)
	const added = "10.8.77.1"
	table, _, stop := watching(t, "-d", rxe.Dev[0], "--columns=ip")
	comes(t, table, rxe.IP[0]+"\n", 1)
	for i, do := range []string{"add", "del"} {
		if _, err := command(t, false, "/bin/ip", "addr", do, added+"/32", "dev", rxe.Net[0]); err != nil {
			t.Fatal(err)
		}
		comes(t, table, rxe.IP[0]+"\n", 2+i)
	}
	stop()
	if out := table.String(); strings.Count(out, added) != 1 {
		t.Errorf("%q has not been there once in\n%s", added, out)
	}
}

func TestRXE_ShowGIDs_LinkDown(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated && !rxe.Hardware {
		t.Cleanup(func() {
			if _, err := command(t, false, "rdma-net"); err != nil {
				t.Error(err)
			}
		})
	}
	table, _, stop := watching(t, "-d", rxe.Dev[1], "-4")
	comes(t, table, "ACTIVE\n", 1)
	rxe.SetLink(t, 1, false)
	comes(t, table, "DOWN\n", 1)
	stop()
	for want, args := range map[string][]string{
		"DOWN\n": {"-d", rxe.Dev[1], "-4"},
		"":       {"-d", rxe.Dev[1], "--up"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, &stdout, &stderr)
		if !strings.HasSuffix(stdout.String(), want) || (code == 0) != (want != "") ||
			(stdout.Len() == 0) != (want == "") {
			t.Errorf("%v: code %d, stdout %q, stderr %q; want %q", args, code, &stdout, &stderr, want)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--best", "-d", rxe.Dev[1]}, &stdout, &stderr)
	if code != 1 || stdout.Len() > 0 ||
		!strings.Contains(stderr.String(), "port is not ACTIVE") {
		t.Errorf("best: code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}
