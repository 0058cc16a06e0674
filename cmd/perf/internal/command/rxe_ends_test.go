package command

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// couple starts a server and a client that meet by TCP, or by rdma_cm, and waits until both are at work.
func couple(t *testing.T, vm testutil.RXE, server, client []string) (srv, cli *proc) {
	t.Helper()
	port := freshPort()
	byCM := slices.Contains(client, "-R") || slices.Contains(client, "-z")
	srv = start(t, "rdmaperf", append(slices.Clone(server), "-d", vm.Dev[0], "-p", port)...)
	says(t, srv, "waiting")
	to := vm.Host[0]
	if byCM {
		to = vm.IP[0]
	}
	cli = start(t, "rdmaperf", append(slices.Clone(client), "-d", vm.Dev[1], "-p", port, to)...)
	begun(t, cli)
	begun(t, srv)
	return srv, cli
}

// TestRXE_Stopped: either end notices that the other one is stopped within its --timeout, in the middle of a long run,
// also where it has no message or completion to wait for.
func TestRXE_Stopped(t *testing.T) {
	vm := needOnce(t)
	n := 0
	for _, line := range []string{"write bw", "atomic lat", "write bw -b", "read bw -z", "write bw -R",
		"read lat -e -z", "write bw -b -q 2 --threads 2", "write bw --run-infinitely"} {
		for _, stops := range []string{"client", "server"} {
			// A short run has the first, and each of the next four once.
			if n++; !testutil.Full() && (n > 10 || n > 2 && n%4 > 1) {
				continue
			}
			t.Run(line+"/"+stops, func(t *testing.T) {
				args := strings.Fields(line)
				if !slices.Contains(args, "--run-infinitely") {
					args = append(args, "-D", "1000")
				}
				quick := append(slices.Clone(args), "--timeout", "2")
				server, client := quick, args
				if stops == "server" {
					server, client = args, quick
				}
				srv, cli := couple(t, vm, server, client)
				victim, survivor := cli, srv
				if stops == "server" {
					victim, survivor = srv, cli
				}
				pause(t, victim) // at times before the message by which the run starts
				if rc := survivor.wait(t); rc != 1 || !strings.Contains(survivor.diag.String(),
					"no message from the peer for 2s") {
					t.Errorf("exit code %d, want 1 and the silent peer\n%s", rc, survivor.output())
				}
				if strings.Contains(survivor.diag.String(), "live") {
					t.Errorf("something was left open\n%s", survivor.output())
				}
			})
		}
	}
}

// TestRXE_Paused: an end that is stopped for less than the timeouts, and goes on, harms nothing.
func TestRXE_Paused(t *testing.T) {
	vm := needOnce(t)
	srv, cli := couple(t, vm, strings.Fields("write bw -D 3"), strings.Fields("write bw -D 3"))
	for _, p := range []*proc{cli, srv} {
		pause(t, p)
		time.Sleep(300 * time.Millisecond)
		p.Process.Signal(syscall.SIGCONT)
	}
	for _, p := range []*proc{cli, srv} {
		if rc := p.wait(t); rc != 0 {
			t.Errorf("%v: exit code %d\n%s", p.Args, rc, p.output())
		}
	}
}

// TestRXE_InterruptPeer: an end whose peer is interrupted ends as the peer does, and says what happened: an endless run
// well, any other not.
func TestRXE_InterruptPeer(t *testing.T) {
	vm := needOnce(t)
	for n, tc := range []struct {
		line, gets string
		code       int
	}{
		{"write bw -b -D 1000", "client", 1},
		{"send bw -b --run-infinitely", "server", 0},
		{"write bw -b --run-infinitely -R", "client", 0},
		{"send bw -D 1000", "server", 1},
		{"send bw -b -D 1000 -z", "server", 1},
		{"send bw --run-infinitely", "client", 0},
		{"read bw --run-infinitely", "server", 0},
		{"send lat -D 1000", "client", 1},
	} {
		if n > 2 && !testutil.Full() {
			continue
		}
		t.Run(tc.line+"/"+tc.gets, func(t *testing.T) {
			args := append(strings.Fields(tc.line), "-s", "4K")
			if tc.code == 0 {
				args = append(args, "--report-interval", "0.1")
			}
			srv, cli := couple(t, vm, args, args)
			testutil.Eventually(t, "the client shows figures", func() bool {
				return tc.code > 0 || strings.Contains(cli.out.String(), " in 0.") || over(t, cli)
			})
			hit, other := cli, srv
			if tc.gets == "server" {
				hit, other = srv, cli
			}
			hit.Process.Signal(syscall.SIGINT)
			for _, p := range []*proc{hit, other} {
				if rc := p.wait(t); rc != tc.code {
					t.Errorf("%v: exit code %d, want %d\n%s", p.Args, rc, tc.code, p.output())
				}
			}
			if said := strings.Contains(other.diag.String(), "the peer was interrupted"); said != (tc.code > 0) {
				t.Errorf("it said %v that the peer was interrupted\n%s", said, other.output())
			}
			if strings.Contains(other.diag.String(), "RetryExcErr") {
				t.Errorf("the reason is another\n%s", other.output())
			}
		})
	}
}

// TestRXE_InterruptStock: a peer of perftest just closes its connection when it is interrupted, which ends an endless
// run.
func TestRXE_InterruptStock(t *testing.T) {
	vm := needOnce(t)
	for n, tc := range []struct {
		line string
		code int
		want string
	}{
		{"write bw -b --run_infinitely", 0, ""},
		{"write bw -b -D 1000", 1, "closed the connection in the middle of the run"},
		{"read bw -b --run_infinitely", 0, ""},
		{"send bw --run_infinitely", 0, ""},
	} {
		if n > 1 && !testutil.Full() {
			continue
		}
		t.Run(tc.line, func(t *testing.T) {
			port := freshPort()
			line := strings.Fields(tc.line)
			srv := start(t, "rdmaperf", append(slices.Clone(line), "-s", "4096", "--report-interval", "0.1", "-d",
				vm.Dev[0], "-p", port)...)
			listening(t, srv, port)
			stock := start(t, stockName("", line[0], line[1]), append(line[2:], "-s", "4096", "-F", "-d", vm.Dev[1],
				"-p", port, vm.Host[0])...)
			testutil.Eventually(t, "the server shows figures", func() bool {
				return strings.Contains(srv.out.String(), " in 0.") || over(t, srv) || over(t, stock)
			})
			stock.Process.Signal(syscall.SIGINT)
			stock.wait(t)
			if rc := srv.wait(t); rc != tc.code || !strings.Contains(srv.diag.String(), tc.want) ||
				strings.Contains(srv.diag.String(), "FAILED") {
				t.Errorf("exit code %d, want %d and %q\n%s", rc, tc.code, tc.want, srv.output())
			}
		})
	}
}

// TestRXE_ProbesCM: connections by rdma_cm that say nothing and close, and those with private data of another program,
// do not end a server, on whichever device they come.
func TestRXE_ProbesCM(t *testing.T) {
	vm := needOnce(t)
	for _, way := range []string{"-R", "-z"} {
		t.Run(way, func(t *testing.T) {
			port := freshPort()
			srv := start(t, "rdmaperf", "write", "bw", "-n", "50", way, "-p", port)
			says(t, srv, "waiting")
			for i, data := range []string{"", "another program", ""} {
				c, err := rdmacm.Dial(t.Context(), net.JoinHostPort(vm.IP[1-i%2], port),
					&rdmacm.Options{PrivateData: []byte(data)})
				if data != "" {
					if no := (*rdmacm.RejectError)(nil); !errors.As(err, &no) {
						t.Errorf("a request of %q: %v, want a refusal", data, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(c.Shutdown(t.Context()), c.Close()); err != nil {
					t.Error(err)
				}
			}
			cli := start(t, "rdmaperf", "write", "bw", "-n", "50", way, "-p", port, vm.IP[0])
			for _, p := range []*proc{cli, srv} {
				if rc := p.wait(t); rc != 0 {
					t.Errorf("%v: exit code %d\n%s", p.Args, rc, p.output())
				}
			}
		})
	}
}

// TestRXE_ClientDecides: a server that just waits takes everything from its client that has to be the same at both ends
// otherwise: the length of the run, sizes, also larger ones, queue pairs, the MTU.
func TestRXE_ClientDecides(t *testing.T) {
	vm := needOnce(t)
	n := 0
	for _, tc := range []struct{ server, client string }{
		{"write bw -q 4 --threads 4", "-q 3 -s 1M -n 20 -m 512"},
		{"read bw", "-a -s 128K -n 5 -q 2 -z"},
		{"atomic bw -n 7", "-q 2 -D 1 -R"},
		{"read lat", "-s 64K -q 2 --threads 2 -n 20"},
		{"write bw -c XRC -q 2", "-c XRC -s 128K -n 50"},
		{"write bw --reversed -s 1M -q 2 -n 30", "--reversed"},
	} {
		if n++; !here(vm, n) && n > 2 {
			continue
		}
		t.Run(tc.server+"/"+tc.client, func(t *testing.T) {
			server := strings.Fields(tc.server)
			client := append(slices.Clone(server[:2]), strings.Fields(tc.client)...)
			for _, way := range []string{"-R", "-z"} {
				if slices.Contains(client, way) {
					server = append(server, way)
				}
			}
			port := freshPort()
			srv := start(t, "rdmaperf", append(server, "--json", "-d", vm.Dev[0], "-p", port)...)
			says(t, srv, "waiting")
			to := vm.Host[0]
			if slices.Contains(client, "-R") || slices.Contains(client, "-z") {
				to = vm.IP[0]
			}
			cli := start(t, "rdmaperf", append(client, "--json", "-d", vm.Dev[1], "-p", port, to)...)
			for _, p := range []*proc{cli, srv} {
				if rc := p.wait(t); rc != 0 {
					t.Fatalf("%v: exit code %d\n%s\n%s", p.Args, rc, p.output(), srv.output())
				}
			}
			s, c := srv.outcome(t), cli.outcome(t)
			if s.Test.QPs != c.Test.QPs || len(c.Results) == 0 {
				t.Errorf("queue pairs: %d here, %d at the client, with %d results", s.Test.QPs, c.Test.QPs,
					len(c.Results))
			}
			if len(s.Results) == 0 || len(c.Results) == 0 {
				return // the server of a latency test has none
			}
			last := c.Results[len(c.Results)-1]
			if r := s.Results[0]; r.Bytes != last.Bytes || r.Count != last.Count {
				t.Errorf("the server has %+v, the client %+v", r, last)
			}
		})
	}
	if !here(vm, 1) {
		return
	}
	t.Run("too much", func(t *testing.T) {
		port := freshPort()
		srv := start(t, "rdmaperf", "read", "bw", "-d", vm.Dev[0], "-p", port)
		listening(t, srv, port)
		cli := start(t, "rdmaperf", "read", "bw", "-s", "256M", "-d", vm.Dev[1], "-p", port, vm.Host[0])
		if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "give this end the same -q and -s") {
			t.Errorf("exit code %d\n%s", rc, srv.output())
		}
		cli.wait(t)
	})
}
