package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// nextPort hands out a TCP port per run: the one of the run before may linger.
var nextPort atomic.Int32

func freshPort() string { return strconv.Itoa(int(21000 + nextPort.Add(1))) }

// proc is a program under test.
type proc struct {
	*exec.Cmd
	out, diag lockedBuffer
	done      chan struct{}
	err       error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, program string, args ...string) *proc {
	t.Helper()
	p := &proc{Cmd: exec.Command(testutil.NeedProgram(t, program), args...), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.diag
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.done
	})
	return p
}

// wait returns the exit code.
func (p *proc) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("%v is not done after %v\n%s", p.Args, limit, p.output())
	}
	return p.ProcessState.ExitCode()
}

func (p *proc) output() string { return p.out.String() + p.diag.String() }

// listening waits until somebody listens on a TCP port, without connecting.
func listening(t *testing.T, port string) {
	t.Helper()
	n, _ := strconv.Atoi(port)
	want := fmt.Sprintf(":%04X ", n)
	for range 500 {
		for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				if i := strings.Index(line, want); i > 0 && strings.Contains(line[i:], ":0000 0A ") {
					return
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("nobody listens on port %s", port)
}

// runPair runs a server on the first device and a client on the second, and
// wants both to exit with 0.
func runPair(t *testing.T, vm testutil.RXE, server, client []string) (srv, cli *proc) {
	t.Helper()
	port := freshPort()
	srv = start(t, server[0], append(slices.Clone(server[1:]), "-d", vm.Dev[0], "-p", port)...)
	listening(t, port)
	cli = start(t, client[0], append(slices.Clone(client[1:]), "-d", vm.Dev[1], "-p", port, vm.IP[0])...)
	if rc := cli.wait(t, 90*time.Second); rc != 0 {
		srv.Process.Kill()
		<-srv.done
		t.Fatalf("client %v: exit code %d\n%s\nserver %v:\n%s", cli.Args, rc, cli.output(), srv.Args, srv.output())
	}
	if rc := srv.wait(t, 30*time.Second); rc != 0 {
		t.Fatalf("server %v: exit code %d\n%s", srv.Args, rc, srv.output())
	}
	return srv, cli
}

type result struct {
	Bytes   uint64  `json:"bytes"`
	Count   uint64  `json:"messages"`
	Bits    float64 `json:"bandwidth_bits_per_second"`
	P50     float64 `json:"latency_p50_ns"`
	Max     float64 `json:"latency_max_ns"`
	Samples uint64  `json:"samples"`
	Sent    *struct {
		Bits float64 `json:"bandwidth_bits_per_second"`
	} `json:"sent"`
	ByPeer bool `json:"reported_by_peer"`
}

type outcome struct {
	Schema   string   `json:"schema"`
	Version  int      `json:"version"`
	Results  []result `json:"results"`
	Verified bool     `json:"payload_verified"`
	Notes    []string `json:"notes"`
	Error    string   `json:"error"`
	Peer     struct {
		Version string `json:"perftest_version"`
		Ours    bool   `json:"pureverbs"`
	} `json:"peer"`
	Local struct {
		Inline int `json:"inline_bytes"`
	} `json:"local"`
}

func (p *proc) outcome(t *testing.T) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil {
		t.Fatalf("%v: %v in\n%s", p.Args, err, p.output())
	}
	return o
}

var kinds = []struct{ verb, metric string }{
	{"write", "bw"}, {"write", "lat"}, {"read", "bw"}, {"read", "lat"}, {"send", "bw"}, {"send", "lat"},
}

// transcript forwards a stock exchange and notes the length of each message.
func transcript(t *testing.T, from, to string) (lens func() string) {
	ln, err := net.Listen("tcp", ":"+from)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err := ln.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", "127.0.0.1:"+to)
		if err != nil {
			a.Close()
			return
		}
		var wg sync.WaitGroup
		pipe := func(dst, src net.Conn, who string) {
			buf := make([]byte, 4096)
			for {
				n, err := src.Read(buf)
				if n > 0 {
					mu.Lock()
					log = append(log, who+strconv.Itoa(n))
					mu.Unlock()
					dst.Write(buf[:n])
				}
				if err != nil {
					dst.(*net.TCPConn).CloseWrite()
					return
				}
			}
		}
		wg.Go(func() { pipe(b, a, "c") })
		wg.Go(func() { pipe(a, b, "s") })
		wg.Wait()
		a.Close()
		b.Close()
	}()
	return func() string {
		ln.Close()
		<-done
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(log, " ")
	}
}

// TestRXE_StockTranscript records what two stock ends say to each other, and
// two of ours, and compares the sequence of messages.
func TestRXE_StockTranscript(t *testing.T) {
	vm := testutil.NeedRXE(t)
	record := func(t *testing.T, program string, args ...string) string {
		front, back := freshPort(), freshPort()
		lens := transcript(t, front, back)
		srv := start(t, program, append(slices.Clone(args), "-d", vm.Dev[0], "-p", back)...)
		listening(t, back)
		cli := start(t, program, append(slices.Clone(args), "-d", vm.Dev[1], "-p", front, "127.0.0.1")...)
		if rc := cli.wait(t, 60*time.Second); rc != 0 {
			t.Fatalf("client: exit code %d\n%s", rc, cli.output())
		}
		srv.wait(t, 30*time.Second)
		return lens()
	}
	for _, k := range kinds {
		t.Run(k.verb+" "+k.metric, func(t *testing.T) {
			stock := record(t, "ib_"+k.verb+"_"+k.metric, "-n", "20", "-F")
			ours := record(t, "perf", k.verb, k.metric, "-n", "20")
			t.Logf("stock %s", stock)
			t.Logf("ours  %s", ours)
		})
	}
}

var _ = io.Discard
var _ = context.Background
var _ = syscall.SIGKILL
