package examples

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// patience is how long anything may take before it counts as hanging.
const patience = testutil.Patience

// process is a program that runs in the background.
type process struct {
	t         *testing.T
	cmd       *exec.Cmd
	out, errs bytes.Buffer
	lines     *lineWriter
	ended     chan struct{}
	code      int
}

// commands are our programs that have another name than their stock peers.
var commands = map[string][]string{
	"rc_pingpong": {"pingpong", "rc"}, "uc_pingpong": {"pingpong", "uc"}, "ud_pingpong": {"pingpong", "ud"},
	"srq_pingpong": {"pingpong", "srq"}, "xsrq_pingpong": {"pingpong", "xsrq"}, "rstream": {"rsocket", "rstream"},
	"riostream": {"rsocket", "riostream"}, "rcopy": {"rsocket", "rcopy"}, "udpong": {"rsocket", "udpong"},
	"rdma_server": {"hello"}, "rdma_client": {"hello"},
}

// launch starts a program and kills it at the end of the test.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchWith(t, nil, args...)
}

// launchWith is launch with an input.
func launchWith(t *testing.T, in *os.File, args ...string) *process {
	t.Helper()
	if c, ok := commands[args[0]]; ok {
		args = append(slices.Clone(c), args[1:]...)
	}
	path := testutil.NeedProgram(t, args[0])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{t: t, cmd: exec.CommandContext(ctx, path, args[1:]...), ended: make(chan struct{})}
	p.lines = &lineWriter{lines: make(chan string, 256)}
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(&p.out, p.lines), &p.errs
	p.cmd.WaitDelay = time.Second
	if in != nil {
		p.cmd.Stdin = in
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

// lineWriter hands out complete lines as they come.
type lineWriter struct {
	part  []byte
	lines chan string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		line, rest, ok := bytes.Cut(w.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		select {
		case w.lines <- string(line):
		default:
		}
		w.part = rest
	}
}

// sees waits for a line on stdout that contains text.
func (p *process) sees(text string) string {
	p.t.Helper()
	for {
		select {
		case line := <-p.lines.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-p.ended:
			select {
			case line := <-p.lines.lines:
				if strings.Contains(line, text) {
					return line
				}
				continue
			default:
			}
			p.t.Fatalf("ended without %q\n%v", text, p)
		case <-time.After(patience):
			p.t.Fatalf("no %q\n%v", text, p.cmd.Args)
		}
	}
}

// wait returns the exit code.
func (p *process) wait() int {
	<-p.ended
	return p.code
}

// String is for after the end.
func (p *process) String() string {
	return fmt.Sprintf("%s: exit %d\nstdout:\n%sstderr:\n%s", strings.Join(p.cmd.Args, " "), p.code, p.out.String(),
		p.errs.String())
}

func (p *process) succeeds() {
	p.t.Helper()
	if p.wait() != 0 && !strings.HasSuffix(p.errs.String(), testutil.RPingRace) {
		p.t.Errorf("%v", p)
	}
}

// fails wants exit code 1 and an error that contains all the texts.
func (p *process) fails(texts ...string) {
	p.t.Helper()
	if p.wait() != 1 {
		p.t.Errorf("exit code %d, want 1\n%v", p.code, p)
	}
	for _, s := range texts {
		if !strings.Contains(p.errs.String(), s) {
			p.t.Errorf("no %q on stderr\n%v", s, p)
		}
	}
}

var lastPort atomic.Int32

// nextPort is a TCP port that no other test uses.
func nextPort() string { return fmt.Sprint(18600 + lastPort.Add(1)) }

// listens waits until somebody listens on a TCP port.
func listens(t *testing.T, p *process, port string) {
	t.Helper()
	var n int
	fmt.Sscan(port, &n)
	local := fmt.Sprintf(":%04X ", n)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(file)
			for _, line := range strings.Split(string(table), "\n") {
				// sl, local address, remote address, state: 0A is LISTEN.
				if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1]+" ", local) && f[3] == "0A" {
					return
				}
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("the server ended before it listened\n%v", p)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody listens on port %s: %v", port, p.cmd.Args)
		}
	}
}

// play starts a server on the first device and a client on the second.
func play(t *testing.T, server, client string, flags ...string) (s, c *process) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	port := nextPort()
	flags = append([]string{"-p", port}, flags...)
	args := func(command, dev string) []string {
		a := append(strings.Fields(command), "-d", dev)
		return append(a, flags...)
	}
	s = launch(t, args(server, rxe.Dev[0])...)
	listens(t, s, port)
	c = launch(t, append(args(client, rxe.Dev[1]), rxe.Host[0])...)
	return s, c
}

var kinds = []struct {
	name  string
	flags []string
}{
	// Several packets and pages, the last ones not whole.
	{"rc_pingpong", []string{"-s", "9001", "-n", "60", "-r", "20"}},
	{"uc_pingpong", []string{"-s", "9001", "-n", "60", "-r", "20"}},
	{"ud_pingpong", []string{"-s", "1001", "-n", "60", "-r", "20"}},
	{"srq_pingpong", []string{"-s", "5001", "-n", "120", "-r", "24", "-q", "5"}},
}

// TestRXEPingPong plays all programs against the stock ones, both ways, and
// against themselves. Payloads are checked where a side can: ours on every
// message, a stock server at the end.
func TestRXEPingPong(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, k := range kinds {
		for _, roles := range []struct{ name, server, client, gid string }{
			{"stock client", k.name, "ibv_" + k.name, fmt.Sprint(rxe.GID)},
			{"stock server", "ibv_" + k.name, k.name, fmt.Sprint(rxe.GID)},
			{"ours", k.name, k.name, ""}, // the GID is chosen
		} {
			for _, events := range []string{"", "-e"} {
				if brief(rxe) && (roles.name == "ours" || (events == "") != (roles.name == "stock client")) {
					continue // each role with one way to wait
				}
				t.Run(strings.Join([]string{k.name, roles.name, "events" + events}, "/"), func(t *testing.T) {
					flags := append([]string{"-c"}, k.flags...)
					if roles.gid != "" {
						flags = append(flags, "-g", roles.gid)
					}
					if events != "" {
						flags = append(flags, events)
					}
					s, c := play(t, roles.server, roles.client, flags...)
					c.succeeds()
					s.succeeds()
					for _, p := range []*process{s, c} {
						out := p.out.String()
						if !strings.Contains(out, " iters in ") || strings.Contains(out, "invalid data") {
							t.Errorf("%v", p)
						}
						if ours := !strings.Contains(p.cmd.Path, "ibv_"); ours && !strings.Contains(out,
							"messages received, every byte as it should be") {
							t.Errorf("not checked\n%v", p)
						}
					}
				})
			}
		}
	}
}

// TestRXEPingPong_CheckIsReal shows that both checks find a payload that is not
// the pattern.
func TestRXEPingPong_CheckIsReal(t *testing.T) {
	testutil.NeedLogic(t)
	t.Run("stock server", func(t *testing.T) {
		s, c := play(t, "ibv_rc_pingpong -c", "rc_pingpong", "-g", gid(t), "-n", "5", "-s", "5000")
		c.succeeds()
		s.succeeds()
		if out := s.out.String(); !strings.Contains(out, "invalid data in page 0") || !strings.Contains(out,
			"invalid data in page 1") {
			t.Errorf("%v", s)
		}
	})
	t.Run("our server", func(t *testing.T) {
		s, c := play(t, "rc_pingpong -c", "ibv_rc_pingpong", "-g", gid(t), "-n", "5", "-s", "5000")
		s.fails("message 0: byte 0 is 0x7b, want 0x00")
		c.cmd.Process.Kill() // it waits for ever
	})
}

// TestRXEPingPong_Long plays with the default flags of both.
func TestRXEPingPong_Long(t *testing.T) {
	testutil.NeedLogic(t)
	s, c := play(t, "ibv_rc_pingpong", "rc_pingpong", "-g", gid(t))
	c.succeeds()
	s.succeeds()
	if !strings.Contains(c.out.String(), "8192000 bytes in ") || !strings.Contains(c.out.String(), "1000 iters in ") {
		t.Errorf("%v", c)
	}
}

// TestRXEPingPong_PeerKilled ends with an error on the side that is left.
func TestRXEPingPong_PeerKilled(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	commands := []string{"srq_pingpong -e", "rc_pingpong", "rc_pingpong -e", "ud_pingpong"}
	if !rxe.Emulated && !testutil.Full() {
		commands = commands[:1] // each is 2.5 s in the VM
	}
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			s, c := play(t, command, command, "-n", "100000000", "-s", "64", "--timeout", "2s")
			c.sees("remote address")
			for start := packets(t); packets(t) < start+50; { // in the midst of it
				select {
				case <-c.ended:
					t.Fatalf("the game is over\n%v", c)
				case <-time.After(5 * time.Millisecond):
				}
			}
			s.cmd.Process.Kill()
			c.fails("pingpong: ")
			e := c.errs.String()
			if !strings.Contains(e, "the peer is gone") && !strings.Contains(e, "RetryExcErr") {
				t.Errorf("the error does not tell\n%v", c)
			}
			if strings.Contains(e, " 0 received of") {
				t.Errorf("it was not in the midst of it\n%v", c)
			}
			if strings.Contains(e, "close ") {
				t.Errorf("not all is closed\n%v", c)
			}
		})
	}
}

// packets is how many the client's device has received.
func packets(t *testing.T) int {
	t.Helper()
	rxe, counter := testutil.NeedRXE(t), "hw_counters/rcvd_pkts"
	if rxe.Emulated || rxe.Hardware {
		counter = "counters/port_rcv_packets"
	}
	b, err := os.ReadFile("/sys/class/infiniband/" + rxe.Dev[1] + "/ports/1/" + counter)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRXEPingPong_OtherSize gives the two sides different sizes.
func TestRXEPingPong_OtherSize(t *testing.T) {
	testutil.NeedLogic(t)
	t.Run("client sends more", func(t *testing.T) {
		s, c := play(t, "rc_pingpong -s 100", "rc_pingpong -s 200", "--timeout", "3s")
		// Hardware says LocLenErr and RemInvReqErr, rxe calls it an operation error.
		s.fails("failed with Loc")
		c.fails("failed with Rem")
	})
	t.Run("client sends less", func(t *testing.T) {
		s, c := play(t, "rc_pingpong -s 200", "rc_pingpong -s 100", "--timeout", "3s")
		s.fails("message 0 has 100 bytes, want 200")
		c.fails("pingpong: ")
	})
}

func TestRXEPingPong_Refuses(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"device", []string{"rc_pingpong", "-d", "rxe9"}, "rxe9"},
		{"port", []string{"rc_pingpong", "-d", rxe.Dev[0], "-i", "2"}, "port"},
		{"empty gid", []string{"rc_pingpong", "-d", rxe.Dev[0], "-g", "200"}, "200"},
		{"datagram over the MTU", []string{"ud_pingpong", "-d", rxe.Dev[0], "-s", "4097"},
			"-s 4097: a datagram fits in one packet, and the MTU of the port is " + map[bool]string{true: "1024",
				false: "4096"}[rxe.Emulated]},
		{"receives", []string{"rc_pingpong", "-d", rxe.Dev[0], "-s", "1", "-r", "1000000"},
			map[bool]string{true: "max_recv_wr 1000000", false: "1000001"}[rxe.Emulated]},
		{"nobody there", []string{"rc_pingpong", "-d", rxe.Dev[0], "-p", nextPort(), "127.0.0.1"},
			"connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			launch(t, tt.args...).fails("pingpong: ", tt.want)
		})
	}
}

// TestRXEPingPong_Interrupted ends a server that nobody came to.
func TestRXEPingPong_Interrupted(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	port := nextPort()
	s := launch(t, "rc_pingpong", "-d", rxe.Dev[0], "-p", port)
	listens(t, s, port)
	s.cmd.Process.Signal(syscall.SIGINT)
	s.fails("context canceled")
}

// TestRXEPingPong_Exchange lets a stranger come to the TCP port of a server
// whose queue pair is ready.
func TestRXEPingPong_Exchange(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	for _, tt := range []struct{ name, says, want string }{
		{"garbage", strings.Repeat("?", 80), "want LID:QPN:PSN:GID"},
		{"early close", "", "EOF"},
		{"queue pair that is none", "0000:000000:000000:00000000000000000000ffff0a080002\x00",
			"the peer has 0 queue pairs, want 1"},
		{"address that is none", "0000:000011:000000:00000000000000000000000000000000\x00",
			"there is neither a GID nor a LID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := nextPort()
			s := launch(t, "rc_pingpong", "-d", rxe.Dev[0], "-p", port, "--timeout", "5s")
			listens(t, s, port)
			if err := say("127.0.0.1:"+port, tt.says); err != nil {
				t.Error(err)
			}
			s.fails(tt.want)
		})
	}
}

// output runs a program that must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	p := launch(t, args...)
	if p.wait() != 0 {
		t.Fatalf("%v", p)
	}
	return p.out.String()
}

// gid is the index of the GID that stock programs are to use.
func gid(t *testing.T) string { return strconv.Itoa(testutil.NeedRXE(t).GID) }
