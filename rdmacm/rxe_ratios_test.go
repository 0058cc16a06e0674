package rdmacm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// serverEnv makes a test binary a server at an address: it prints where it listens,
// and how many bytes its connections take when it reads a line, and ends with its
// input.
const serverEnv = "PUREVERBS_TEST_SERVE"

// tiny is what cmtime makes: QPs of one work request on one PD and one CQ. The
// result closes those.
func tiny(device string) (*Options, func(), error) {
	dev, err := ibv.Open(device)
	if err != nil {
		return nil, nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, nil, err
	}
	cq, err := dev.CreateCQ(2000, nil)
	if err != nil {
		return nil, nil, err
	}
	opt := &Options{PD: pd, SendCQ: cq, RecvCQ: cq, QP: ibv.QPOptions{MaxSendWR: 1, MaxRecvWR: 1}}
	return opt, func() { _, _, _ = cq.Close(), pd.Close(), dev.Close() }, nil
}

func serveUntilEOF(addr string) int {
	addr, device, _ := strings.Cut(addr, " ")
	opt, free, err := tiny(device)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer free()
	l, err := Listen(context.Background(), addr, opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	var open sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	open.Add(1)
	go func() {
		defer open.Done()
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Done()
				<-c.Done()
				_ = c.Close()
			}()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(resident())
	}
	stop()
	open.Wait()
	_ = l.Close()
	return 0
}

// resident is the memory of this process.
func resident() int {
	var total, pages int
	b, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(b), &total, &pages)
	return pages * os.Getpagesize()
}

// peerServer is a server in another process.
type peerServer struct {
	addr netip.AddrPort
	in   io.WriteCloser
	out  *bufio.Scanner
}

func startServer(t *testing.T, addr string) *peerServer {
	t.Helper()
	cmd := exec.CommandContext(brief(t, 5*time.Minute), must(os.Executable())(t))
	cmd.Env = append(os.Environ(), serverEnv+"="+addr)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())(t)
	out := must(cmd.StdoutPipe())(t)
	ok(t, cmd.Start())
	p := &peerServer{in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	p.addr = must(netip.ParseAddrPort(p.line(t)))(t)
	return p
}

func (p *peerServer) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("the server says nothing: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *peerServer) resident(t *testing.T) int {
	t.Helper()
	must(fmt.Fprintln(p.in))(t)
	return must(strconv.Atoi(p.line(t)))(t)
}

// openAll dials n connections at once.
func openAll(t *testing.T, addr netip.AddrPort, n int, opt *Options) []*Conn {
	t.Helper()
	conns := make([]*Conn, n)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := DialAddr(timeout(t), addr, opt)
			if err != nil {
				t.Errorf("dial: %v", err)
			}
			conns[i] = c
		}()
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return conns
}

func closeAll(t *testing.T, conns []*Conn) {
	t.Helper()
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := c.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
	}
	wg.Wait()
}

var cmtimeStep = regexp.MustCompile(`(?m)^[a-z ]+: +([0-9.]+)`)

// stockRate is how many connections a second cmtime opens and closes, by the sum of
// the times of its steps.
func stockRate(t *testing.T, cmtime, addr string, port, n int) float64 {
	t.Helper()
	ctx := timeout(t)
	args := []string{"-p", strconv.Itoa(port), "-c", strconv.Itoa(n)}
	server := exec.CommandContext(ctx, cmtime, args...)
	ok(t, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	for try := 0; ; try++ {
		time.Sleep(200 * time.Millisecond) // it says nothing when it listens
		out, err := exec.CommandContext(ctx, cmtime, append(args, "-s", addr)...).CombinedOutput()
		var ms float64
		steps := cmtimeStep.FindAllSubmatch(out, -1)
		for _, m := range steps {
			ms += must(strconv.ParseFloat(string(m[1]), 64))(t)
		}
		if err == nil && len(steps) >= 6 && ms > 0 {
			return float64(n) / ms * 1000
		}
		if try == 3 {
			t.Fatalf("cmtime: %v\n%s", err, out)
		}
	}
}

// TestRXERatiosCM opens and closes connections beside stock cmtime, and weighs idle
// ones.
func TestRXERatiosCM(t *testing.T) {
	r := testutil.NeedRXE(t)
	cmtime := testutil.NeedStock(t, "cmtime")
	rounds, n := 1, 20
	if os.Getenv("PUREVERBS_FIGURES") != "" {
		rounds, n = 7, 100
	}
	port := 21000
	var ratios, ours, stock []float64
	s := startServer(t, local(t).String()+" "+r.Dev[0])
	opt, free, err := tiny(r.Dev[0])
	ok(t, err)
	defer free()
	for i := range rounds {
		mine := func() {
			start := time.Now()
			closeAll(t, openAll(t, s.addr, n, opt))
			ours = append(ours, float64(n)/time.Since(start).Seconds())
		}
		theirs := func() {
			port++
			stock = append(stock, stockRate(t, cmtime, r.IP[0], port, n))
		}
		// The order alternates, so that neither side always finds the warmer machine.
		if i%2 == 0 {
			mine()
			theirs()
		} else {
			theirs()
			mine()
		}
		ratios = append(ratios, ours[i]/stock[i])
	}
	t.Logf("ours  %.0f a second", ours)
	t.Logf("stock %.0f a second", stock)
	median := func(v []float64) float64 { v = slices.Clone(v); slices.Sort(v); return v[len(v)/2] }
	fmt.Printf("figure cm_connect_ratio %.3f ratio\n", median(ratios))
	fmt.Printf("figure cm_connect_ratio_spread %.3f max/min\n", slices.Max(ratios)/slices.Min(ratios))
	fmt.Printf("figure cm_connect_ours %.1f 1/s\n", median(ours))
	fmt.Printf("figure cm_connect_stock %.1f 1/s\n", median(stock))

	// Idle connections, in the server and here.
	const first = 8
	idle := 3 * n
	s = startServer(t, local(t).String()+" "+r.Dev[0]) // with nothing to use again
	closeAll(t, openAll(t, s.addr, first, opt))
	server, client := s.resident(t), resident()
	conns := openAll(t, s.addr, idle, opt)
	server, client = s.resident(t)-server, resident()-client
	closeAll(t, conns)
	t.Logf("%d idle connections take %d KiB in the server, %d KiB in the client", idle, server>>10, client>>10)
	fmt.Printf("figure cm_conn_bytes %d B\n", server/idle)
	fmt.Printf("figure cm_conn_bytes_client %d B\n", client/idle)
}
