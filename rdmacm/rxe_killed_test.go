package rdmacm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// dialerEnv makes a test binary one that opens, uses and closes connections to an
// address; dialerCount says how many.
const (
	dialerEnv   = "PUREVERBS_TEST_DIAL"
	dialerCount = "PUREVERBS_TEST_DIAL_COUNT"
)

// dialer is the child of TestRXE_CM_Killed.
func dialer(addr string) int {
	n, _ := strconv.Atoi(os.Getenv(dialerCount))
	work := make(chan int, n)
	for i := range n {
		work <- i
	}
	close(work)
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range work {
				errs <- dialOnce(addr)
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// small is the size of connections that come in numbers.
func small() *Options { return &Options{QP: ibv.QPOptions{MaxSendWR: 4, MaxRecvWR: 4}} }

// dialOnce opens a connection, sends a message, waits until it has arrived, and
// closes it.
func dialOnce(addr string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	c, err := Dial(ctx, addr, small())
	if err != nil {
		return err
	}
	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
	if err == nil {
		err = use(ctx, c, mr)
		err = errors.Join(err, mr.Close())
	}
	return errors.Join(err, c.Close())
}

func use(ctx context.Context, c *Conn, mr *ibv.MR) error {
	copy(mr.Bytes(), "used")
	if _, err := c.QP().PostSend([]ibv.SendWR{{ID: 1, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{mr.SGE(0, 4)}}}); err != nil {
		return err
	}
	var wc [1]ibv.WC
	if _, err := c.CQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	return wc[0].Err()
}

// census counts what a process holds.
type census struct {
	fds, goroutines, objects, ids, rss int
}

func count(t *testing.T, r testutil.RXE) (c census) {
	t.Helper()
	runtime.GC()
	fds := must(os.ReadDir("/proc/self/fd"))(t)
	c.fds, c.goroutines = len(fds), runtime.NumGoroutine()
	var total, resident int
	statm := must(os.ReadFile("/proc/self/statm"))(t)
	if _, err := fmt.Sscan(string(statm), &total, &resident); err != nil {
		t.Fatal(err)
	}
	c.rss = resident * os.Getpagesize()
	if r.Emulated {
		out := must(exec.Command(testutil.NeedProgram(t, "emu"), "control", "stats").Output())(t)
		var stats struct{ Objects int }
		ok(t, json.Unmarshal(out, &stats))
		c.objects = stats.Objects
		return c
	}
	rdma := testutil.NeedProgram(t, "rdma")
	for _, kind := range []string{"qp", "cq", "pd", "mr", "cm_id"} {
		out := must(exec.Command(rdma, "resource", "show", kind).Output())(t)
		n := bytes.Count(out, []byte("comm "+comm(t)))
		if kind == "cm_id" {
			c.ids = n
		} else {
			c.objects += n
		}
	}
	return c
}

// comm is the name under which the kernel lists this process.
func comm(t *testing.T) string {
	return strings.TrimSpace(string(must(os.ReadFile("/proc/self/comm"))(t)))
}

// TestRXE_CM_Killed takes a thousand connections of other processes, some of which
// are killed in the middle, and looks for what is left of them.
func TestRXE_CM_Killed(t *testing.T) {
	r := testutil.NeedRXE(t)
	var mrs sync.Map // *ibv.MR of a *Conn
	opt := small()
	opt.Prepare = func(c *Conn) error {
		mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
		if err != nil {
			return err
		}
		mrs.Store(c, mr)
		c.OnClose(func() error { mrs.Delete(c); return mr.Close() })
		_, err = c.QP().PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(0, 4096)}}})
		return err
	}
	l := must(Listen(timeout(t), local(t).String(), opt))(t)
	// Both keep the device open, so that what it has for itself is counted.
	mine := newIDOn(t, newChannel(t), PortSpaceTCP)
	ok(t, mine.Bind(local(t)))
	must(mine.Verbs())(t)

	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	var accepted, used, open int
	var mu sync.Mutex
	add := func(n *int, d int) {
		mu.Lock()
		*n += d
		mu.Unlock()
	}
	serving.Add(1)
	go func() {
		defer serving.Done()
		for {
			c, err := l.Accept(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("accept: %v", err)
				continue
			}
			add(&accepted, 1)
			add(&open, 1)
			serving.Add(1)
			go func() {
				defer serving.Done()
				defer add(&open, -1)
				mr, _ := mrs.Load(c)
				if serve(t, c, mr.(*ibv.MR)) {
					add(&used, 1)
				}
			}()
		}
	}()
	// run has a child dial n times, and kills it when kill of its connections were
	// accepted: others are in the middle then.
	run := func(n, kill int) {
		t.Helper()
		cmd := exec.Command(must(os.Executable())(t))
		cmd.Env = append(os.Environ(), dialerEnv+"="+l.Addr().String(), dialerCount+"="+strconv.Itoa(n))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		ok(t, cmd.Start())
		mu.Lock()
		goal := accepted + kill
		mu.Unlock()
		done := make(chan struct{})
		go func() {
			for kill > 0 {
				mu.Lock()
				now := accepted
				mu.Unlock()
				if now >= goal {
					_ = cmd.Process.Kill()
					return
				}
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
		err := cmd.Wait()
		close(done)
		if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil &&
			(kill == 0 || status.Signal() != syscall.SIGKILL) {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	idle := func() {
		t.Helper()
		for end := time.Now().Add(testutil.Patience); ; time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			n := open
			mu.Unlock()
			l.mu.Lock()
			n += l.handshakes + len(l.requests) + len(l.ready)
			l.mu.Unlock()
			if n == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d connections are open %v after their peers are gone", n, testutil.Patience)
			}
		}
	}
	children, kills, each := 5, 8, 100
	switch {
	case r.Emulated:
	case r.Hardware || testutil.Full():
		each = 30
	default: // the VM's processor is emulated, and slow
		children, kills, each = 3, 3, 6
	}
	batch := func() time.Duration {
		start := time.Now()
		for range children {
			run(each, 0)
		}
		took := time.Since(start)
		for i := range kills {
			run(each, 1+i*each/(4*kills))
		}
		idle()
		return took
	}
	batch() // what the libraries keep is there now
	before := count(t, r)
	took := batch()
	after := count(t, r)
	// The children's objects go with them, a moment later.
	left := func() bool {
		return after.fds > before.fds || after.goroutines > before.goroutines || after.objects > before.objects ||
			after.ids > before.ids
	}
	for end := time.Now().Add(testutil.Patience / 2); left() && time.Now().Before(end); after = count(t, r) {
		time.Sleep(50 * time.Millisecond)
	}
	mu.Lock()
	t.Logf("%d connections were accepted, %d of them used; %d a second; before %+v, after %+v", accepted, used,
		int(float64(children*each)/took.Seconds()), before, after)
	if used < 2*children*each {
		t.Errorf("%d connections were used, want at least %d", used, 2*children*each)
	}
	mu.Unlock()
	if left() {
		t.Errorf("left behind: before %+v, after %+v", before, after)
	}
	// What leaks grows each time.
	for tries := 1; after.rss-before.rss > 4<<20; tries++ {
		t.Logf("memory grew by %d KiB", (after.rss-before.rss)>>10)
		if tries == 3 {
			t.Errorf("memory grows each time")
			break
		}
		before = after
		batch()
		after = count(t, r)
	}
	stop()
	serving.Wait()
	ok(t, l.Close())
}

// serve takes one message, if one comes, and waits for the end.
func serve(t *testing.T, c *Conn, mr *ibv.MR) (used bool) {
	var wc [1]ibv.WC
	// A peer that is gone flushes the receive.
	if _, err := c.CQ().Wait(context.Background(), wc[:]); err != nil {
		t.Errorf("wait: %v", err)
	}
	used = wc[0].Err() == nil && string(mr.Bytes()[:4]) == "used"
	<-c.Done()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return used
}
