package examples

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// role says which ends are stock programs.
type role struct {
	name                     string
	stockServer, stockClient bool
}

var roles = []role{
	{"ours", false, false},
	{"stock client", false, true},
	{"stock server", true, false},
}

// brief reports whether programs play in the VM, where each takes seconds, and the run is not a full one.
func brief(rxe testutil.RXE) bool { return !rxe.Emulated && !rxe.Hardware && !testutil.Full() }

// rolesOn returns the roles for a device. In a brief run our programs do not play against each other.
func rolesOn(rxe testutil.RXE) []role {
	if brief(rxe) {
		return roles[1:]
	}
	return roles
}

// refused is what programs say of a server that does not listen yet.
var refused = regexp.MustCompile(`(?i)reject|unreachable|refused`)

// pair starts a server, and a client once somebody listens. Ours says so; a stock
// one does not, so a client that was refused has to come again. Both get the flags.
func pair(t *testing.T, stockServer, stockClient bool, server, client []string, flags ...string) (s, c *process) {
	t.Helper()
	server, client = append(server, flags...), append(client, flags...)
	if stockServer {
		server[0] = testutil.NeedStock(t, server[0])
	}
	if stockClient {
		client[0] = testutil.NeedStock(t, client[0])
	}
	s = launch(t, server...)
	if !stockServer {
		s.sees("listening on ")
		return s, launch(t, client...)
	}
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(50 * time.Millisecond) {
		c = launch(t, client...)
		if c.wait(); !refused.MatchString(c.out.String() + c.errs.String()) {
			return s, c
		}
		select {
		case <-s.ended:
			t.Fatalf("the server ended before a client came\n%v", s)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("refused still\n%v", c)
		}
	}
}

// says wants a text on stdout.
func (p *process) says(texts ...string) {
	p.t.Helper()
	p.wait()
	for _, s := range texts {
		if !strings.Contains(p.out.String(), s) {
			p.t.Errorf("no %q on stdout\n%v", s, p)
		}
	}
}

// ends interrupts a server that runs until then.
func (p *process) ends() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	p.succeeds()
}

// TestRXECM_RPing reads and writes the client's memory, several packets of it too,
// with every byte checked by the client, and by our server.
func TestRXECM_RPing(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, r := range rolesOn(rxe) {
		for _, size := range []string{"64", "9001"} {
			t.Run(r.name+"/"+size, func(t *testing.T) {
				s, c := pair(t, r.stockServer, r.stockClient,
					[]string{"rping", "-s", "-a", rxe.IP[0], "-V"},
					[]string{"rping", "-c", "-a", rxe.IP[0], "-V", "-C", "20"},
					"-p", nextPort(), "-v", "-S", size)
				c.succeeds()
				s.succeeds()
				// The text shows the same on either side.
				const first, last = "ping data: rdma-ping-0: ABCDEFGHIJ", "ping data: rdma-ping-19: TUVWXYZ[\\]^_`abc"
				c.says(first, last)
				s.says("server "+first, "server "+last)
				for _, p := range []*process{s, c} {
					if n := strings.Count(p.out.String(), "ping data: rdma-ping-"); n != 20 {
						t.Errorf("%d pings are shown, want 20\n%v", n, p)
					}
				}
				if !r.stockClient {
					c.says("20 pings, every byte as it should be")
				}
				if !r.stockServer {
					s.says("20 pings, every byte as it should be")
				}
			})
		}
	}
}

// TestRXECM_TwoDevices goes from one device to the other. The other tests need
// only one.
func TestRXECM_TwoDevices(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	to, from := rxe.IP[0], rxe.IP[1]
	for _, r := range rolesOn(rxe) {
		t.Run("rping/"+r.name, func(t *testing.T) {
			port, before := nextPort(), packets(t)
			s, c := pair(t, r.stockServer, r.stockClient,
				[]string{"rping", "-s", "-a", to, "-p", port},
				[]string{"rping", "-c", "-a", to, "-I", from, "-p", port, "-V", "-C", "20"})
			c.succeeds()
			s.succeeds()
			if n := packets(t) - before; n < 40 {
				t.Errorf("the client's device received %d packets", n)
			}
		})
		t.Run("udaddy/"+r.name, func(t *testing.T) {
			before := packets(t)
			s, c := pair(t, r.stockServer, r.stockClient,
				[]string{"udaddy", "-b", to, "-C", "20"},
				[]string{"udaddy", "-s", to, "-b", from, "-C", "20"})
			c.succeeds()
			s.succeeds()
			if n := packets(t) - before; n < 20 {
				t.Errorf("the client's device received %d packets", n)
			}
		})
	}
}

// TestRXECM_RPingPersistent serves several clients at a time, ours and stock ones,
// among them one that is killed.
func TestRXECM_RPingPersistent(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	port := nextPort()
	s := launch(t, "rping", "-s", "-P", "-V", "-p", port)
	s.sees("listening on ")
	client := func(path string, flags ...string) *process {
		return launch(t, append([]string{path, "-c", "-a", rxe.IP[0], "-p", port, "-V"}, flags...)...)
	}
	victim := client("rping", "-v")
	victim.sees("ping data: rdma-ping-3:")
	var all []*process
	for range 3 {
		all = append(all, client("rping", "-C", "30"), client(testutil.NeedStock(t, "rping"), "-C", "30"))
	}
	victim.cmd.Process.Kill()
	for _, c := range all {
		c.succeeds()
	}
	for range all { // a client may end before the server has counted it
		s.sees("30 pings, every byte as it should be")
	}
	s.ends()
}

// TestRXECM_RPingServerKilled ends with an error on the side that is left.
func TestRXECM_RPingServerKilled(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s, c := pair(t, false, false, []string{"rping", "-s"}, []string{"rping", "-c", "-v", "-a", rxe.IP[0]}, "-p",
		nextPort(), "--timeout", "20s")
	c.sees("ping data: rdma-ping-3:")
	s.cmd.Process.Kill()
	// The kernel closes the server's memory, queue pair and connection one after another: a read between two of these
	// fails with a status of its own.
	c.fails("rping: ping ")
	if e := c.errs.String(); !strings.Contains(e, "disconnected") && !strings.Contains(e, "failed with RemOpErr") {
		t.Errorf("neither a disconnection nor the failure of a read\n%v", c)
	}
}

// TestRXECM_RPingForEver goes on until interrupted.
func TestRXECM_RPingForEver(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s, c := pair(t, false, false, []string{"rping", "-s", "-V"}, []string{"rping", "-c", "-V", "-v", "-a", rxe.IP[0]},
		"-p", nextPort())
	c.sees("ping data: rdma-ping-9:")
	c.ends()
	c.says(" pings, every byte as it should be")
	s.wait() // which may have been in the midst of a ping
}

// TestRXECM_UDAddy sends datagrams both ways.
func TestRXECM_UDAddy(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, r := range rolesOn(rxe) {
		t.Run(r.name, func(t *testing.T) {
			server, client := []string{"udaddy"}, []string{"udaddy", "-s", rxe.IP[0]}
			if r.name == "ours" {
				server, client = append(server, "-V"), append(client, "-V")
			}
			// Stock programs have another -p.
			if r.name == "ours" {
				port := nextPort()
				server, client = append(server, "-p", port), append(client, "-p", port)
			}
			if r.stockServer {
				server = append(server, "-b", rxe.IP[0])
			}
			conns := 3
			if r.stockServer {
				conns = 1 // of several the first may come too early, and the others not
			}
			s, c := pair(t, r.stockServer, r.stockClient, server, client, "-c", strconv.Itoa(conns), "-C", "25", "-S",
				"1000")
			c.succeeds()
			s.succeeds()
			for i, p := range []*process{s, c} {
				switch {
				case r.name == "ours":
					p.says("75 datagrams sent and as many received, every byte as it should be")
				case i == 0 && r.stockServer || i == 1 && r.stockClient:
					p.says("data transfers complete", "return status 0")
				default:
					p.says(strconv.Itoa(25*conns) + " datagrams sent and as many received")
				}
			}
		})
	}
}

// TestRXECM_Ucmatose sends messages both ways over several connections, which one goroutine follows, and with -m moves
// to another channel.
func TestRXECM_Ucmatose(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, r := range rolesOn(rxe) {
		t.Run(r.name, func(t *testing.T) {
			conns := 5
			if r.stockServer {
				conns = 1 // of several the first may come too early, and the others not
			}
			server, client := []string{"ucmatose", "-b", rxe.IP[0]}, []string{"ucmatose", "-s", rxe.IP[0]}
			flags := []string{"-c", strconv.Itoa(conns), "-C", "20", "-S", "3000", "-p", nextPort()}
			switch r.name {
			case "ours":
				flags = append(flags, "-V", "-m")
				client = append(client, "-b", rxe.IP[1], "-t", "32", "-a", "14")
			case "stock server":
				flags = append(flags, "-m")
			}
			s, c := pair(t, r.stockServer, r.stockClient, server, client, flags...)
			c.succeeds()
			s.succeeds()
			for i, p := range []*process{s, c} {
				switch {
				case r.name == "ours":
					p.says("100 messages sent and as many received, every byte as it should be")
				case i == 0 && r.stockServer || i == 1 && r.stockClient:
					p.says("data transfers complete", "return status 0")
				default:
					p.says(strconv.Itoa(20*conns) + " messages sent and as many received")
				}
			}
		})
	}
}

// TestRXECM_MCKey sends to a group. All are on one device: what the network
// between two does with multicast is its own affair.
func TestRXECM_MCKey(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	group := func(n int) []string {
		return []string{"-m", fmt.Sprint("239.7.1.", n), "-b", rxe.IP[0], "-C", "12", "-S", "500"}
	}
	t.Run("ours", func(t *testing.T) {
		testutil.NeedLogic(t)
		var receivers []*process
		for range 2 {
			p := launch(t, append([]string{"mckey", "-V"}, group(1)...)...)
			p.sees("receiving")
			receivers = append(receivers, p)
		}
		s := launch(t, append([]string{"mckey", "-s", "-o", "--settle", "0s"}, group(1)...)...)
		s.succeeds()
		s.says("12 datagrams sent")
		for _, p := range receivers {
			p.succeeds()
			p.says("12 datagrams received, every byte as it should be")
		}
	})
	t.Run("stock sender", func(t *testing.T) {
		r := launch(t, append([]string{"mckey"}, group(2)...)...)
		r.sees("receiving")
		s := launch(t, append([]string{testutil.NeedStock(t, "mckey"), "-s"}, group(2)...)...)
		r.succeeds()
		r.says("12 datagrams received")
		s.succeeds()
	})
	t.Run("stock receiver", func(t *testing.T) {
		r := launch(t, append([]string{testutil.NeedStock(t, "mckey")}, group(3)...)...)
		for sent := false; ; {
			select {
			case <-r.ended: // it counts what came, whoever sent it
				r.succeeds()
				r.says("receiving data transfers", "data transfers complete", "return status 0")
				if !sent {
					t.Error("it has not waited")
				}
				return
			case <-time.After(500 * time.Millisecond): // it does not say when it is there
				launch(t, append([]string{"mckey", "-s", "--settle", "0s"}, group(3)...)...).succeeds()
				sent = true
			}
		}
	})
}

// TestRXECM_CheckIsReal shows that -V finds payloads that are not the pattern.
func TestRXECM_CheckIsReal(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	t.Run("udaddy", func(t *testing.T) {
		s, c := pair(t, false, true, []string{"udaddy", "-V"}, []string{"udaddy", "-s", rxe.IP[0]})
		s.fails("udaddy: message 0: byte 0 is ")
		c.cmd.Process.Kill() // it waits for ever
	})
	t.Run("mckey", func(t *testing.T) {
		r := launch(t, "mckey", "-V", "-m", "239.7.1.4", "-b", rxe.IP[0])
		r.sees("receiving")
		s := launch(t, testutil.NeedStock(t, "mckey"), "-s", "-m", "239.7.1.4", "-b", rxe.IP[0])
		r.fails("mckey: message 0: byte 0 is ")
		s.succeeds()
	})
	t.Run("ucmatose", func(t *testing.T) {
		s, c := pair(t, false, true, []string{"ucmatose", "-V"}, []string{"ucmatose", "-s", rxe.IP[0]}, "-p",
			nextPort())
		s.fails("ucmatose: message 0: byte ")
		c.succeeds()
	})
	t.Run("size of messages", func(t *testing.T) {
		s, c := pair(t, false, false, []string{"ucmatose", "-S", "100"}, []string{"ucmatose", "-S", "200", "-s",
			rxe.IP[0]}, "-p", nextPort())
		c.fails("message 0 has 100 bytes, want 200: give both sides the same -S")
		s.cmd.Process.Kill() // it waits for the messages
	})
	t.Run("size", func(t *testing.T) {
		s, c := pair(t, false, false, []string{"udaddy", "-S", "200"}, []string{"udaddy", "-S", "100", "-s", rxe.IP[0],
			"--timeout", "1s"}, "-p", nextPort())
		s.fails("datagram 0 has 100 bytes, want 200: give both sides the same -S")
		c.fails("0 datagrams received of 10: nothing for 1s")
	})
	t.Run("count", func(t *testing.T) {
		s, c := pair(t, false, false, []string{"udaddy", "-C", "20"}, []string{"udaddy", "-C", "10", "-s", rxe.IP[0]},
			"-p", nextPort(), "--timeout", "1s")
		s.fails("10 datagrams received of 20: nothing for 1s")
		c.fails("0 datagrams received of 10: nothing for 1s")
		if e := s.errs.String(); strings.Count(e, "\n") != 1 {
			t.Errorf("more is wrong than that: %s", e)
		}
	})
}

var table = regexp.MustCompile(
	`(?m)^step .*\n(?:[a-z ]+: +[0-9. ]+\n)*connect +: +[0-9. ]+\n(?:[a-z ]+: +[0-9. ]+\n)*destroy +: +[0-9. ]+$`)

// TestRXECM_CMTime opens and closes many connections at a time.
func TestRXECM_CMTime(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	for _, r := range rolesOn(rxe) {
		t.Run(r.name, func(t *testing.T) {
			if r.stockServer || r.stockClient {
				usage, _ := exec.Command(testutil.NeedStock(t, "cmtime"), "-h").CombinedOutput()
				if strings.Contains(string(usage), "base_qpn") {
					t.Skip("skipped: cmtime of rdma-core v52 or later speaks a protocol of its own by TCP")
				}
			}
			n, clients := 40, 1
			if r.stockClient {
				// With more than one connection a stock client leaves CQs behind,
				// which the emulator would take for ours.
				n, clients = 1, 5
			}
			port := nextPort()
			server := []string{"cmtime", "-b", rxe.IP[0], "-p", port}
			client := []string{"cmtime", "-s", rxe.IP[0], "-p", port, "-c", fmt.Sprint(n)}
			s, first := pair(t, r.stockServer, r.stockClient, server, client)
			all := []*process{first}
			for len(all) < clients {
				all = append(all, launch(t, first.cmd.Args...))
			}
			for _, c := range all {
				c.succeeds()
				if !table.MatchString(c.out.String()) || strings.Contains(c.out.String(), "error") {
					t.Errorf("%v", c)
				}
			}
			if r.stockServer {
				return // it never ends by itself
			}
			s.sees(fmt.Sprintf("%d connections", n*clients)) // the last may still be closing
			s.ends()
		})
	}
}

// TestRXECM_ClientServer sends one message each way.
func TestRXECM_ClientServer(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	for _, r := range rolesOn(rxe) {
		t.Run(r.name, func(t *testing.T) {
			s, c := pair(t, r.stockServer, r.stockClient, []string{"rdma_server"}, []string{"rdma_client", "-s",
				rxe.IP[0]}, "-p", nextPort())
			c.succeeds()
			s.succeeds()
			question, answer := "hello, server", "hello, client"
			if r.stockClient {
				question = "" // zeros
			}
			if r.stockServer {
				answer = ""
			}
			if !r.stockServer {
				s.says(fmt.Sprintf("says %q", question))
			}
			if !r.stockClient {
				c.says(fmt.Sprintf("replies %q", answer))
			}
		})
	}
}

func TestRXECM_Refuses(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	port := nextPort()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"nobody listens", []string{"rping", "-c", "-a", rxe.IP[0], "-p", port, "-C", "1"}, "rejected"},
		{"nobody listens for datagrams", []string{"udaddy", "-s", rxe.IP[0], "-p", port}, "nobody listens"},
		{"nobody listens to messages", []string{"ucmatose", "-s", rxe.IP[0], "-p", port, "-c", "3"},
			"rejected: connection rejected"},
		{"nobody listens to many", []string{"cmtime", "-s", rxe.IP[0], "-p", port, "-c", "20"}, "connect: "},
		{"address of nobody", []string{"hello", "-b", "192.0.2.77", "-p", port}, "192.0.2.77"},
		{"datagram over the MTU", []string{"mckey", "-m", "239.7.1.5", "-b", rxe.IP[0], "-S", "4097"},
			"-S 4097: a datagram fits in one packet, and the MTU of the port is "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			launch(t, tt.args...).fails(tt.args[0]+": ", tt.want)
		})
	}
}

// TestRXECM_Interrupted ends servers that nobody came to.
func TestRXECM_Interrupted(t *testing.T) {
	testutil.NeedLogic(t)
	for _, command := range []string{"rping -s", "udaddy", "hello", "ucmatose"} {
		t.Run(command, func(t *testing.T) {
			s := launch(t, append(strings.Fields(command), "-p", nextPort())...)
			s.sees("listening on ")
			s.cmd.Process.Signal(syscall.SIGINT)
			s.fails("context canceled")
		})
	}
}
