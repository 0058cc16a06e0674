package command

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
	return runFramesWith(t, vm, server, client, nil, nil)
}

// runFramesWith has other addresses than those of the ports.
func runFramesWith(t *testing.T, vm testutil.RXE, server, client, ofServer, ofClient []string) (srv, cli *proc) {
	t.Helper()
	s, c := framesBetween(t, vm)
	s, c = append(s, ofServer...), append(c, ofClient...)
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
		p := start(t, "rdmaperf", "send", "bw", "-c", "RawEth", "-d", vm.Dev[0], "-B", "e4:1d:2d:00:00:01")
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "-c) RawEth") {
			t.Errorf("exit code %d, want 1 and that it has no raw Ethernet\n%s", rc, p.output())
		}
		return
	}
	tab := interop{}
	ip := []string{"-J", "10.88.0.1", "-j", "10.88.1.1", "-K", "5000", "-k", "5001"}
	n := 0
	for _, metric := range []string{"bw", "lat"} {
		rows := [][]string{{"-s", "1000", "-n", "100"}, append([]string{"-s", "200", "-n", "100"}, ip...),
			{"-s", "300", "-n", "100", "--tcp", "--raw_ipv6", "-J", "fd00::1", "-j", "fd00::2", "-K", "50", "-k", "51"},
			append([]string{"-s", "400", "-n", "100", "--vlan_en", "--vlan_pcp=3"}, ip...)}
		if metric == "bw" {
			rows = append(rows, []string{"-s", "500", "-n", "100", "-b"},
				append([]string{"-s", "600", "-n", "100", "--flows=4", "--flows_burst=5"}, ip...))
		}
		for _, args := range rows {
			size := args[1]
			for _, release := range []string{"", newer} {
				stock := stockName(release, rawEthernet, metric)
				theirs := append(stockOf(t, release, rawEthernet, metric), args...)
				ours := append([]string{"rdmaperf", "send", metric, "-c", "RawEth", "--json"}, args...)
				for _, serve := range []bool{true, false} {
					if n++; !testutil.Full() && n%10 != placeOf(vm) {
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
		args := []string{"rdmaperf", "send", "bw", "-c", "RawEth", "--json", "-n"}
		srv, _ := runFrames(t, vm, append(args[:7:7], "50"), append(args[:7:7], "47"))
		if o := srv.outcome(t); len(o.Results) != 1 || o.Results[0].Lost != 3 {
			t.Errorf("%+v, want 3 lost frames", o)
		}
	})
	ip := []string{"-J", "10.88.0.1", "-j", "10.88.1.1", "-K", "5000", "-k", "5001"}
	for n, tc := range []struct {
		line           string
		server, client []string // besides
		count          uint64
	}{
		{"bw -q 2 --threads 2 --flows 3", ip, ip, 200},
		{"lat -q 2 --threads 2 --tcp --vlan-en", ip, ip, 200},
		{"bw -b -q 2 --threads 2 -L 9 -T 8", ip, ip, 200},
		{"bw --vlan-en --vlan-pcp 8 --promiscuous", []string{"-B", "02:00:00:00:00:77"}, nil, 100},
		{"bw --sniffer", []string{"-B", "02:00:00:00:00:77"}, nil, 100},
		{"bw -e", nil, []string{"-E", "01:00:5e:00:00:05"}, 100},
	} {
		if !testutil.Full() && n%3 != placeOf(vm)%3 {
			continue
		}
		t.Run(tc.line, func(t *testing.T) {
			if tc.client != nil && tc.server == nil {
				tc.server = []string{"-B", tc.client[1]}
			}
			args := slices.Concat([]string{"rdmaperf", "send"}, strings.Fields(tc.line),
				[]string{"-c", "RawEth", "-n", "100", "--json"})
			srv, cli := runFramesWith(t, vm, args, args, tc.server, tc.client)
			for _, p := range []*proc{srv, cli} {
				o := p.outcome(t)
				if len(o.Results) != 1 || o.Results[0].Count != tc.count || o.Results[0].Lost != 0 {
					t.Fatalf("%v: %+v, want %d frames", p.Args, o, tc.count)
				}
				if r := o.Results[0]; strings.Contains(tc.line, "-b ") && (r.Sent == nil || r.Bits <= r.Sent.Bits) {
					t.Errorf("%v: %+v, want both directions", p.Args, r)
				}
			}
		})
	}
	t.Run("interrupted before the first frame", func(t *testing.T) {
		s, _ := framesBetween(t, vm)
		srv := start(t, "rdmaperf", append([]string{"send", "lat", "-c", "RawEth", "--timeout", "1"}, s...)...)
		says(t, srv, "waiting for frames")
		srv.Process.Signal(os.Interrupt)
		if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "interrupted") {
			t.Errorf("exit code %d\n%s", rc, srv.output())
		}
	})
	t.Run("too long", func(t *testing.T) {
		_, c := framesBetween(t, vm)
		p := start(t, "rdmaperf", append([]string{"send", "bw", "-c", "RawEth", "-s", "70000"}, c...)...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "the longest frame with the mtu") {
			t.Errorf("exit code %d\n%s", rc, p.output())
		}
	})
}
