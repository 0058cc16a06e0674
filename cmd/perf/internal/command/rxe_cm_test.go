package command

import (
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// pairCM runs a server and a client with -R, and wants both to exit with 0.
func pairCM(t *testing.T, vm testutil.RXE, server, client []string) (srv, cli *proc) {
	t.Helper()
	return pairBy(t, vm, vm.IP[0], append(slices.Clone(server), "-R"), append(slices.Clone(client), "-R"))
}

// pairBy runs a server and a client that meet at an address by rdma_cm, and wants both to exit with 0. A stock
// client does not try again, so it waits for its server; a stock server says when it listens to a terminal only, but
// our client tries again.
func pairBy(t *testing.T, vm testutil.RXE, addr string, server, client []string) (srv, cli *proc) {
	t.Helper()
	port := freshPort()
	srv = start(t, server[0], append(slices.Clone(server[1:]), "-d", vm.Dev[0], "-p", port)...)
	if server[0] == "rdmaperf" {
		says(t, srv, "waiting for a client on rdma_cm port "+port)
	}
	args := append(slices.Clone(client[1:]), "-p", port)
	if client[0] == "rdmaperf" && server[0] != "rdmaperf" { // a busy machine takes its time to start a server
		args = append(args, "--retry", strconv.Itoa(int(testutil.Patience.Seconds())))
	}
	cli = start(t, client[0], append(args, addr)...)
	if rc := cli.wait(t); rc != 0 {
		srv.Process.Kill()
		<-srv.done
		t.Fatalf("client %v: exit code %d\n%s\nserver %v:\n%s", cli.Args, rc, cli.output(), srv.Args, srv.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Fatalf("server %v: exit code %d\n%s", srv.Args, rc, srv.output())
	}
	return srv, cli
}

// says waits until a program has said something on stderr.
func says(t *testing.T, p *proc, what string) {
	t.Helper()
	testutil.Eventually(t, p.Args[0]+" says "+what, func() bool {
		return strings.Contains(p.diag.String(), what) || over(t, p)
	})
}

// over fails the test if a program has ended.
func over(t *testing.T, p *proc) bool {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("%v ended\n%s", p.Args, p.output())
	default:
	}
	return false
}

// perftestVersion matches what perftest says of itself: Debian 11's 5.96, later ones' 6.
var perftestVersion = regexp.MustCompile(`^(5\.96|6\.)`)

// TestRXE_StockCM runs each of perftest's programs against ours with -R, in both
// roles.
func TestRXE_StockCM(t *testing.T) {
	vm := testutil.NeedLogic(t)
	all := "write bw, write lat, read bw, read lat, send bw, send lat"
	n := 0
	for _, v := range []struct {
		name, kinds, size string
		args              []string
	}{
		{"default size", all, "", []string{"-n", "30"}},
		{"three queue pairs", "write bw, read bw", "1024", []string{"-q", "3", "-s", "1024", "-n", "50"}},
		{"both directions", "write bw, send bw", "1024", []string{"-b", "-q", "2", "-s", "1024", "-n", "50"}},
		{"events", "send bw, read bw", "4096", []string{"-e", "-s", "4096", "-n", "50"}},
		{"UD", "send bw, send lat", "512", []string{"-c", "UD", "-s", "512", "-n", "50"}},
		{"UD both directions", "send bw", "512", []string{"-c", "UD", "-b", "-q", "2", "-s", "512", "-n", "50"}},
		{"atomics", "atomic bw, atomic lat", "8", []string{"-n", "50"}},
		{"immediate", "write_imm bw, write_imm lat", "1024", []string{"-s", "1024", "-n", "50"}},
	} {
		for _, k := range interopKinds() {
			kind := k.verb + " " + k.metric
			if !strings.Contains(v.kinds, kind) {
				continue
			}
			n++
			newest := k.verb == withImm // which SoftRoCE's perftest lacks
			if !here(vm, n) || newest && (!vm.Emulated || lacksImm()) || v.name == "atomics" && !testutil.Full() {
				continue
			}
			size := v.size
			if size == "" {
				size = map[string]string{"bw": "65536", "lat": "2"}[k.metric]
			}
			ours := append([]string{"rdmaperf", k.verb, k.metric, "--json"}, v.args...)
			release := ""
			if newest {
				release = newer
			}
			stock := stockName(release, k.verb, k.metric)
			theirs := append(stockOf(t, release, k.verb, k.metric), v.args...)
			check := func(t *testing.T, p *proc, client bool) {
				o := p.outcome(t)
				if o.Error != "" || o.Peer.Ours || !perftestVersion.MatchString(o.Peer.Version) || !o.Test.RDMACM {
					t.Errorf("%+v", o)
				}
				if len(o.Results) == 0 {
					if client || kind != "read lat" && kind != "atomic lat" {
						t.Fatal("no results")
					}
					return // the server of read lat measures nothing
				}
				last := o.Results[len(o.Results)-1]
				moved := last.Bits
				if last.Sent != nil {
					moved = last.Sent.Bits
				}
				if strconv.FormatUint(last.Bytes, 10) != size ||
					k.metric == "bw" && !last.ByPeer && !(moved > 0) || k.metric == "lat" &&
					!(last.P50 > 0 && last.Max >= last.P50) {
					t.Errorf("figures %+v", last)
				}
			}
			t.Run(stock+"/"+v.name+"/we serve", func(t *testing.T) {
				srv, cli := pairCM(t, vm, ours, theirs)
				stockRow(t, cli, size)
				check(t, srv, false)
			})
			t.Run(stock+"/"+v.name+"/stock serves", func(t *testing.T) {
				_, cli := pairCM(t, vm, theirs, ours)
				check(t, cli, true)
			})
		}
	}
}

// TestRXE_OursCM runs both ends of ours with -R, from the other device, and checks
// every payload byte.
func TestRXE_OursCM(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	for _, k := range kinds {
		variants := [][]string{{"-s", "100", "-n", "300", "-u", "17", "--tclass", "32"}}
		if k.metric == "bw" {
			variants = append(variants, []string{"-b", "-q", "4", "-s", "300", "-n", "100"})
		}
		switch {
		case k.verb == "read":
			variants = append(variants, []string{"-o", "2", "-n", "20"})
		case k.verb == "send":
			variants = append(variants, []string{"-e", "-n", "20"})
		case k.metric == "bw":
			variants = append(variants, []string{"-a", "-s", "4K", "-n", "8"}, []string{"-N", "-D", "1", "-s", "4K"})
		}
		for _, v := range variants {
			if n++; !here(vm, n) {
				continue
			}
			t.Run(k.verb+" "+k.metric+" "+strings.Join(v, " "), func(t *testing.T) {
				args := append([]string{"rdmaperf", k.verb, k.metric, "--json", "--verify"}, v...)
				srv, cli := pairCM(t, vm, args, append(slices.Clone(args), "-d", vm.Dev[1], "-x", strconv.Itoa(vm.GID)))
				so, co := srv.outcome(t), cli.outcome(t)
				if !so.Peer.Ours || !co.Peer.Ours || !so.Verified && !co.Verified {
					t.Errorf("server %+v, client %+v", so, co)
				}
				if co.Local.Device != vm.Dev[1] || so.Local.Device != vm.Dev[0] ||
					!strings.HasSuffix(so.Peer.GID, vm.IP[1]) {
					t.Errorf("devices %s and %s, the client is %s; want %s and %s, %s", so.Local.Device,
						co.Local.Device, so.Peer.GID, vm.Dev[0], vm.Dev[1], vm.IP[1])
				}
			})
		}
	}
}

// TestRXE_PeerDiesCM kills one end in the middle of a run.
func TestRXE_PeerDiesCM(t *testing.T) {
	vm := testutil.NeedLogic(t)
	n := 0
	for _, test := range []string{"write bw", "write lat", "send lat"} {
		for _, dies := range []string{"client", "server"} {
			if n++; !here(vm, n) {
				continue
			}
			t.Run(test+"/"+dies, func(t *testing.T) {
				port := freshPort()
				args := append(strings.Fields(test), "-R", "-D", "100", "--timeout", "10", "-p", port)
				srv := start(t, "rdmaperf", args...)
				says(t, srv, "waiting")
				cli := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
				begun(t, cli)
				begun(t, srv)
				victim, survivor := cli, srv
				if dies == "server" {
					victim, survivor = srv, cli
				}
				victim.Process.Kill()
				<-victim.done
				if rc := survivor.wait(t); rc != 1 {
					t.Errorf("exit code %d, want 1\n%s", rc, survivor.output())
				}
				diag := survivor.diag.String()
				if !strings.Contains(diag, "closed the connection") && !strings.Contains(diag, "retry") {
					t.Errorf("the reason is not in %q", diag)
				}
				if strings.Contains(diag, "panic") || strings.Contains(diag, "live") {
					t.Errorf("something was left open, or worse: %q", diag)
				}
			})
		}
	}
}

// begun waits until a test is under way.
func begun(t *testing.T, p *proc) {
	t.Helper()
	testutil.Eventually(t, p.Args[0]+" begins", func() bool {
		return strings.Contains(p.out.String(), "#bytes") || over(t, p)
	})
}

// TestRXE_TwoClientsCM: while one client is served others are turned away, ours
// with the reason.
func TestRXE_TwoClientsCM(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"write", "bw", "-R", "-D", "4", "-s", "4K", "-p", port}
	srv := start(t, "rdmaperf", args...)
	says(t, srv, "waiting")
	first := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
	begun(t, first)
	pause(t, first)
	second := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
	if rc := second.wait(t); rc != 1 || !strings.Contains(second.diag.String(), "busy with another client") {
		t.Errorf("second client: exit code %d\n%s", rc, second.output())
	}
	stock := start(t, "ib_write_bw", "-R", "-F", "-p", port, vm.IP[0])
	if rc := stock.wait(t); rc == 0 {
		t.Errorf("a stock client was served\n%s", stock.output())
	}
	first.Process.Signal(syscall.SIGCONT)
	if rc := first.wait(t); rc != 0 {
		t.Errorf("first client: exit code %d\n%s", rc, first.output())
	}
	if rc := srv.wait(t); rc != 0 {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_FailuresCM: what goes wrong says so, with a way out.
func TestRXE_FailuresCM(t *testing.T) {
	vm := needOnce(t)
	fails := func(t *testing.T, p *proc, want string) {
		t.Helper()
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), want) {
			t.Errorf("%v: exit code %d, want 1 and %q\n%s", p.Args, rc, want, p.output())
		}
	}
	t.Run("nobody listens", func(t *testing.T) {
		fails(t, start(t, "rdmaperf", "write", "bw", "-R", "--retry", "0.3", "-p", freshPort(), vm.IP[0]),
			"no server is listening there with -R")
	})
	t.Run("no RDMA device", func(t *testing.T) {
		if a := netip.MustParseAddr(vm.IP[0]); a.IsLoopback() {
			t.Fatal("the devices' addresses are loopback's")
		}
		fails(t, start(t, "rdmaperf", "write", "bw", "-R", "-p", freshPort(), "192.0.2.1"), "by rdma_cm")
	})
	t.Run("another device", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "write", "bw", "-R", "-d", vm.Dev[1], "-p", port)
		says(t, srv, "waiting")
		cli := start(t, "rdmaperf", "write", "bw", "-R", "--retry", "0.3", "-p", port, vm.IP[0])
		fails(t, srv, "leads to "+vm.Dev[0])
		fails(t, cli, "the server refused the connection")
	})
	t.Run("different tests", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "send", "bw", "-R", "-s", "4K", "-p", port)
		says(t, srv, "waiting")
		cli := start(t, "rdmaperf", "send", "bw", "-R", "-s", "8K", "-p", port, vm.IP[0])
		fails(t, srv, "size (-s) is")
		fails(t, cli, "size (-s) is")
	})
	t.Run("interrupt", func(t *testing.T) {
		srv := start(t, "rdmaperf", "write", "bw", "-R", "-p", freshPort())
		says(t, srv, "waiting")
		srv.Process.Signal(os.Interrupt)
		fails(t, srv, "interrupted")
	})
}

// TestRXE_StrangersCM: what else may connect to a server with -R does not end it. Its client is served though some are
// still there.
func TestRXE_StrangersCM(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	srv := start(t, "rdmaperf", "write", "bw", "-R", "--timeout", "10", "-p", port)
	says(t, srv, "waiting")
	for _, tc := range []struct {
		name string
		say  []int // bytes of each message
	}{
		{"empty", nil},
		{"garbage", []int{16}},
		{"too long", []int{4000}},
		{"too many", slices.Repeat([]int{16}, 20)},
		{"half", []int{7}},
	} {
		var mr *ibv.MR
		c, err := rdmacm.Dial(t.Context(), net.JoinHostPort(vm.IP[0], port),
			&rdmacm.Options{Prepare: func(c *rdmacm.Conn) (err error) {
				if mr, err = c.PD().AllocMR(8192, ibv.LocalWrite, nil); err != nil {
					return err
				}
				c.OnClose(mr.Close)
				_, err = c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(4096, 4096)}}})
				return err
			}})
		if err != nil {
			t.Fatalf("%s: %v\n%s", tc.name, err, srv.output())
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		copy(mr.Bytes(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		for i, n := range tc.say {
			// Some fail: the server may have had enough.
			_, _ = c.QP().PostSend([]ibv.SendWR{{ID: uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
				SGEs: []ibv.SGE{mr.SGE(0, n)}}})
		}
		if tc.say != nil {
			<-c.Done() // the server has closed it
		}
	}
	cli := start(t, "ib_write_bw", "-F", "-R", "-n", "50", "-p", port, vm.IP[0])
	if rc := cli.wait(t); rc != 0 {
		t.Errorf("client: exit code %d\n%s", rc, cli.output())
	}
	if rc := srv.wait(t); rc != 0 || strings.Count(srv.diag.String(), "is no client") != 1 ||
		strings.Contains(srv.diag.String(), "panic") {
		t.Errorf("exit code %d\n%s", rc, srv.output())
	}
}

// TestRXE_InterruptCM: both ends leave in order when one gets a signal in a run.
func TestRXE_InterruptCM(t *testing.T) {
	vm := needOnce(t)
	port := freshPort()
	args := []string{"send", "bw", "-R", "-D", "100", "--timeout", "10", "-p", port}
	srv := start(t, "rdmaperf", args...)
	says(t, srv, "waiting")
	cli := start(t, "rdmaperf", append(slices.Clone(args), vm.IP[0])...)
	begun(t, cli)
	cli.Process.Signal(os.Interrupt)
	if rc := cli.wait(t); rc != 1 || !strings.Contains(cli.diag.String(), "interrupted") {
		t.Errorf("exit code %d\n%s", rc, cli.output())
	}
	if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "the peer was interrupted") {
		t.Errorf("server: exit code %d\n%s", rc, srv.output())
	}
}
