package command

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_StockExchange runs perftest's programs against ours with -z, in both roles: the exchange goes by rdma_cm, the
// queue pairs are regular ones. And with --ipv6-addr, by each way to meet.
func TestRXE_StockExchange(t *testing.T) {
	vm := testutil.NeedLogic(t)
	const all = "send bw, send lat, write bw, write lat, read bw, read lat"
	n := 0
	for _, v := range []struct {
		name, kinds string
		args        []string
		short       bool // the first kind runs in a short run, too
	}{
		{"exchange", all + ", atomic bw, atomic lat", []string{"-z", "-n", "50"}, true},
		{"exchange, both directions", "send bw, write bw", []string{"-z", "-b", "-q", "2", "-s", "1024", "-n", "50"},
			true},
		{"exchange, UC", "write lat, write bw", []string{"-z", "-c", "UC", "-s", "1024", "-n", "50"}, false},
		{"exchange, UD", "send lat, send bw", []string{"-z", "-c", "UD", "-s", "512", "-n", "50"}, false},
		{"exchange, DC", "send lat, write bw", []string{"-z", "-c", "DC", "-s", "1024", "-n", "50"}, false},
		{"exchange, IPv6", "send lat, write bw", []string{"-z", "--ipv6", "--ipv6-addr", "-n", "50"}, true},
		{"rdma_cm, IPv6", "send lat, write bw", []string{"-R", "--ipv6-addr", "-n", "50"}, false},
		{"IPv6", "send lat, write bw", []string{"--ipv6-addr", "-n", "50"}, false},
	} {
		for i, k := range strings.Split(v.kinds, ", ") {
			n++
			if !here(vm, n) || !testutil.Full() && (i > 0 || !v.short) {
				continue
			}
			if slices.Contains(v.args, "DC") && !vm.Emulated && !vm.Hardware {
				continue // SoftRoCE has none
			}
			verb, metric, _ := strings.Cut(k, " ")
			ours := append([]string{"rdmaperf", verb, metric, "--json"}, v.args...)
			releases, addr := interopReleases(vm, verb, n), vm.IP[0]
			if slices.Contains(v.args, "--ipv6-addr") {
				if !vm.Emulated {
					continue // its perftest does not know the option
				}
				releases, addr = []string{newer}, addressOf(t, vm.Dev[0])
			}
			check := func(t *testing.T, p *proc) {
				o := p.outcome(t)
				if o.Error != "" || o.Peer.Ours || o.Test.CMExchange != slices.Contains(v.args, "-z") ||
					o.Test.RDMACM != slices.Contains(v.args, "-R") {
					t.Errorf("%+v", o)
				}
				if slices.Contains(v.args, "--ipv6") && (mapped(o.Local.GID) || mapped(o.Peer.GID)) {
					t.Errorf("GIDs %s and %s, want those of IPv6", o.Local.GID, o.Peer.GID)
				}
			}
			pair := func(t *testing.T, server, client []string) (srv, cli *proc) {
				switch {
				case slices.Contains(v.args, "-R"):
				case slices.Contains(v.args, "-z"):
					client = append(slices.Clip(client), "-d", vm.Dev[1])
				default:
					client = append(slices.Clip(client), "-d", vm.Dev[1])
					port := freshPort()
					srv = start(t, server[0], append(slices.Clone(server[1:]), "-d", vm.Dev[0], "-p", port)...)
					listening(t, srv, port)
					cli = start(t, client[0], append(slices.Clone(client[1:]), "-p", port, addr)...)
					if s, c := srv.wait(t), cli.wait(t); s != 0 || c != 0 {
						t.Fatalf("exit codes %d and %d\n%s%s", s, c, srv.output(), cli.output())
					}
					return srv, cli
				}
				return pairBy(t, vm, addr, server, client)
			}
			for _, release := range releases {
				stock := stockName(release, verb, metric)
				theirs := append(stockOf(t, release, verb, metric), v.args...)
				size := map[string]string{"bw": "65536", "lat": "2"}[metric]
				if verb == "atomic" {
					size = "8"
				}
				if i := slices.Index(v.args, "-s"); i >= 0 {
					size = v.args[i+1]
				}
				serves := testutil.Full() || n%5 < 3 // a short run has one role
				if !serves || testutil.Full() {
					t.Run(stock+"/"+v.name+"/stock serves", func(t *testing.T) {
						_, cli := pair(t, theirs, ours)
						check(t, cli)
						if r := cli.outcome(t).Results; len(r) != 1 || strconv.FormatUint(r[0].Bytes, 10) != size ||
							!(r[0].Bits > 0 || r[0].P50 > 0 || r[0].Sent != nil) {
							t.Errorf("results %+v", r)
						}
					})
				}
				if !serves {
					continue
				}
				t.Run(stock+"/"+v.name+"/we serve", func(t *testing.T) {
					srv, cli := pair(t, ours, theirs)
					stockRow(t, cli, size)
					check(t, srv)
				})
			}
		}
	}
}

// addressOf returns an address of IPv6 of a device, not a link-local one.
func addressOf(t *testing.T, device string) string {
	t.Helper()
	entries, err := sysfs.DefaultRoot().GIDs(device, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if a := netip.AddrFrom16(e.GID); e.Err == nil && a.Is6() && !a.Is4In6() && a.IsPrivate() {
			return a.String()
		}
	}
	t.Fatalf("%s has no address of IPv6 but link-local ones", device)
	return ""
}

// TestRXE_Exchange runs both ends of ours with -z, where perftest fails against itself, and where both have to leave.
func TestRXE_Exchange(t *testing.T) {
	vm := testutil.NeedLogic(t)
	by := func(line string) []string {
		return append([]string{"rdmaperf", "-z", "--json"}, strings.Fields(line)...)
	}
	if vm.Emulated && here(vm, 1) {
		for _, line := range []string{"send bw -c XRC -q 2 -s 300 -n 60", "send lat --reversed -n 40"} {
			_, cli := pairBy(t, vm, vm.IP[0], by(line), append(by(line), "-d", vm.Dev[1]))
			if o := cli.outcome(t); !o.Peer.Ours || !o.Test.CMExchange || len(o.Results) != 1 {
				t.Errorf("%s: %+v", line, o)
			}
		}
	}
	if !here(vm, 2) {
		return
	}
	t.Run("sizes differ", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "send", "bw", "-z", "-s", "4K", "-p", port)
		says(t, srv, "waiting")
		cli := start(t, "rdmaperf", "send", "bw", "-z", "-s", "8K", "-p", port, vm.IP[0])
		for _, p := range []*proc{cli, srv} {
			if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), "size (-s) is") {
				t.Errorf("exit code %d\n%s", rc, p.output())
			}
		}
	})
	t.Run("no TCP", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "send", "bw", "-z", "-p", port)
		says(t, srv, "waiting for a client on rdma_cm port "+port)
		cli := start(t, "rdmaperf", "send", "bw", "--retry", "0.2", "-p", port, vm.Host[0])
		if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), "no server is listening there") {
			t.Errorf("exit code %d\n%s", rc, cli.output())
		}
	})
	if !testutil.Full() {
		return
	}
	t.Run("peer dies", func(t *testing.T) {
		port := freshPort()
		args := []string{"send", "bw", "-z", "-D", "100", "--timeout", "10", "-p", port}
		srv := start(t, "rdmaperf", args...)
		says(t, srv, "waiting")
		cli := start(t, "rdmaperf", append(args, vm.IP[0])...)
		begun(t, cli)
		begun(t, srv)
		cli.Process.Kill()
		<-cli.done
		if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "closed the connection") {
			t.Errorf("exit code %d\n%s", rc, srv.output())
		}
	})
}

// TestRXE_PayloadFile sends what a file says, to perftest and from it, and looks at what arrived.
func TestRXE_PayloadFile(t *testing.T) {
	vm := testutil.NeedLogic(t)
	const text = "0x03020100,0x07060504,0x0b0a0908,\n0xfffefdfc,0xdeadbeef"
	// Files that perftest reads and maps have to be in the root of its release.
	folder := func(t *testing.T, release string) (inside, outside string) {
		root, at := "", ""
		if release != "" && testutil.Libraries() == "" {
			var err error
			if root, err = filepath.Abs("../../../../.build/debian/" + release); err != nil {
				t.Fatal(err)
			}
			at = filepath.Join(root, "tmp")
		}
		outside, err := os.MkdirTemp(at, "payload")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(outside) })
		for name, b := range map[string][]byte{"payload": []byte(text), "arrived": make([]byte, 1<<20)} {
			if err := os.WriteFile(filepath.Join(outside, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return strings.TrimPrefix(outside, root), outside
	}
	// Both have the receive area of one queue pair after a send area of one page.
	arrived := func(t *testing.T, folder string, size int) {
		b, err := os.ReadFile(filepath.Join(folder, "arrived"))
		if err != nil {
			t.Fatal(err)
		}
		unit, err := payload.Read(filepath.Join(folder, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, os.Getpagesize())
		payload.Fill(want, unit)
		for _, at := range []int{0, 128} { // the first two messages
			if got := b[os.Getpagesize()+at:][:size]; !bytes.Equal(got, want[at:][:size]) {
				t.Errorf("at %d arrived\n% x, want\n% x", at, got, want[at:][:size])
			}
		}
	}
	sized := []string{"-s", "100", "-n", "40"}
	for i, release := range []string{"", newer} {
		if release == newer && !vm.Emulated || !here(vm, i) || release == "" && !testutil.Full() {
			continue
		}
		for _, k := range []struct{ verb, metric string }{{"send", "bw"}, {"write", "bw"}} {
			if k.verb == "write" && !testutil.Full() {
				continue
			}
			ours := append([]string{"rdmaperf", k.verb, k.metric}, sized...)
			theirs := append(stockOf(t, release, k.verb, k.metric), sized...)
			name := stockName(release, k.verb, k.metric)
			t.Run(name+"/we send", func(t *testing.T) {
				inside, outside := folder(t, release)
				runPair(t, vm, append(theirs, "--mmap="+inside+"/arrived"),
					append(ours, "--payload_file_path="+outside+"/payload"))
				arrived(t, outside, 100)
			})
			if release == "" || lacksImm() {
				continue // it has no such option
			}
			t.Run(name+"/stock sends", func(t *testing.T) {
				inside, outside := folder(t, release)
				runPair(t, vm, append(ours, "--mmap="+outside+"/arrived"),
					append(theirs, "--payload_file_path="+inside+"/payload"))
				arrived(t, outside, 100)
			})
		}
	}
	if !here(vm, 2) {
		return
	}
	_, outside := folder(t, "")
	file := outside + "/payload"
	for _, line := range []string{"write bw -b -q 2 -s 300 -n 40", "write lat -s 30 -n 40", "read bw -s 300 -n 40"} {
		args := append([]string{"rdmaperf", "--json", "--verify", "--payload-file-path", file}, strings.Fields(line)...)
		srv, cli := runPair(t, vm, args, args)
		if !srv.outcome(t).Verified && !cli.outcome(t).Verified {
			t.Errorf("%s: nothing was checked\n%s", line, cli.output())
		}
	}
	t.Run("another payload", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "send", "bw", "--verify", "-d", vm.Dev[0], "-p", port)
		listening(t, srv, port)
		cli := start(t, "rdmaperf", "send", "bw", "--verify", "-d", vm.Dev[1], "-p", port, "--payload-file-path", file,
			vm.Host[0])
		if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(),
			"one file here, rdmaperf's own at the peer") {
			t.Errorf("exit code %d\n%s", rc, cli.output())
		}
		srv.wait(t)
	})
}
