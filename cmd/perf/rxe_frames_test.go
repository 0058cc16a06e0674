package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// framesBetween returns the flags of both ends of raw Ethernet.
func framesBetween(t *testing.T, vm testutil.RXE) (server, client []string) {
	t.Helper()
	var mac [2]string
	for i, n := range vm.Net {
		b, err := os.ReadFile(filepath.Join("/sys/class/net", n, "address"))
		if err != nil {
			t.Fatal(err)
		}
		mac[i] = strings.TrimSpace(string(b))
	}
	return []string{"-d", vm.Dev[0], "-B", mac[0], "-E", mac[1], "--server"},
		[]string{"-d", vm.Dev[1], "-B", mac[1], "-E", mac[0], "--client"}
}

// runFrames runs a server and a client that do not meet, and wants both to exit with 0.
func runFrames(t *testing.T, vm testutil.RXE, server, client []string) (srv, cli *proc) {
	t.Helper()
	s, c := framesBetween(t, vm)
	srv = start(t, server[0], append(slices.Clone(server[1:]), s...)...)
	testutil.Eventually(t, "the server receives frames", func() bool {
		out, err := exec.Command("emu", "control", "receivers").CombinedOutput()
		if err != nil {
			t.Fatalf("emu control receivers: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out)) != "0" || over(t, srv)
	})
	cli = start(t, client[0], append(slices.Clone(client[1:]), c...)...)
	if rc := cli.wait(t); rc != 0 {
		t.Fatalf("client %v: exit code %d\n%s\nserver %v:\n%s", cli.Args, rc, cli.output(), srv.Args, srv.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Fatalf("server %v: exit code %d\n%s", srv.Args, rc, srv.output())
	}
	return srv, cli
}

// TestRXE_InteropFrames runs raw_ethernet_bw and raw_ethernet_lat against ours, in both roles.
func TestRXE_InteropFrames(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if !vm.Emulated {
		p := start(t, "perf", "send", "bw", "-c", "RawEth", "-d", vm.Dev[0], "-B", "e4:1d:2d:00:00:01")
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "-c) RawEth") {
			t.Errorf("exit code %d, want 1 and that it has no raw Ethernet\n%s", rc, p.output())
		}
		return
	}
	tab := interop{}
	ip := []string{"-J", "10.88.0.1", "-j", "10.88.1.1", "-K", "5000", "-k", "5001"}
	n := 0
	for _, metric := range []string{"bw", "lat"} {
		rows := [][]string{{"-s", "1000", "-n", "100"}, append([]string{"-s", "200", "-n", "100"}, ip...)}
		for _, args := range rows {
			size := args[1]
			for _, release := range []string{"", newer} {
				stock := stockName(release, rawEthernet, metric)
				theirs := append(stockOf(t, release, rawEthernet, metric), args...)
				ours := append([]string{"perf", "send", metric, "-c", "RawEth", "--json"}, args...)
				for _, serve := range []bool{true, false} {
					if n++; !testutil.Full() && n%4 != placeOf(vm) {
						continue
					}
					server, client, role := ours, theirs, "we serve"
					if !serve {
						server, client, role = theirs, ours, "stock serves"
					}
					t.Run(stock+"/"+size+"/"+role, func(t *testing.T) {
						tab.note(t, stock, []string{"-c", "RawEth"}, role)
						srv, cli := runFrames(t, vm, server, client)
						mine, peer := srv, cli
						if !serve {
							mine, peer = cli, srv
						}
						stockRow(t, peer, size)
						o := mine.outcome(t)
						if len(o.Results) != 1 || o.Results[0].Lost != 0 || o.Results[0].Count != 100 {
							t.Errorf("%+v", o)
						}
					})
				}
			}
		}
	}
	tab.print(t, vm, []struct{ verb, metric string }{{rawEthernet, "bw"}, {rawEthernet, "lat"}}, "RawEth")
}

// TestRXE_Frames runs both ends of ours.
func TestRXE_Frames(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if !vm.Emulated {
		t.Skip("SoftRoCE has no raw Ethernet: TestRXE_InteropFrames looks at the refusal")
	}
	t.Run("lost", func(t *testing.T) {
		args := []string{"perf", "send", "bw", "-c", "RawEth", "--json", "-n"}
		srv, _ := runFrames(t, vm, append(args[:7:7], "50"), append(args[:7:7], "47"))
		if o := srv.outcome(t); len(o.Results) != 1 || o.Results[0].Lost != 3 {
			t.Errorf("%+v, want 3 lost frames", o)
		}
	})
	t.Run("interrupted before the first frame", func(t *testing.T) {
		s, _ := framesBetween(t, vm)
		srv := start(t, "perf", append([]string{"send", "lat", "-c", "RawEth", "--timeout", "1"}, s...)...)
		says(t, srv, "waiting for frames")
		srv.Process.Signal(os.Interrupt)
		if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "interrupted") {
			t.Errorf("exit code %d\n%s", rc, srv.output())
		}
	})
	t.Run("too long", func(t *testing.T) {
		_, c := framesBetween(t, vm)
		p := start(t, "perf", append([]string{"send", "bw", "-c", "RawEth", "-s", "70000"}, c...)...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "the longest frame with the mtu") {
			t.Errorf("exit code %d\n%s", rc, p.output())
		}
	})
}
