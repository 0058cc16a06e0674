//go:build linux

package random

import (
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

const (
	seedEnv    = "PUREVERBS_SEED"
	soakEnv    = "PUREVERBS_SOAK"
	childEnv   = "PUREVERBS_RANDOM_CHILD"
	unboundEnv = "PUREVERBS_UNBOUND" // no memory windows are bound
)

func TestMain(m *testing.M) { emulated.Main(m) }

// errAborted is returned to a station when another one has failed.
var errAborted = errors.New("aborted: the other end failed")

// exchange carries messages between the ends.
type exchange struct {
	to   [][2]chan []byte // by group and receiving end
	stop chan struct{}
	once sync.Once
	far  *gob.Encoder // to the other process
	mu   sync.Mutex
}

func newExchange(p *program) *exchange {
	x := &exchange{stop: make(chan struct{})}
	for range p.groups {
		x.to = append(x.to, [2]chan []byte{make(chan []byte, 4), make(chan []byte, 4)})
	}
	return x
}

func (x *exchange) abort() { x.once.Do(func() { close(x.stop) }) }

func (x *exchange) stopped() bool {
	select {
	case <-x.stop:
		return true
	default:
		return false
	}
}

func (x *exchange) swap(g, e int, b []byte) ([]byte, error) {
	if x.far != nil {
		x.mu.Lock()
		err := x.far.Encode(&letter{Group: g, Data: b})
		x.mu.Unlock()
		if err != nil {
			return nil, err
		}
	} else {
		select {
		case x.to[g][1-e] <- b:
		case <-x.stop:
			return nil, errAborted
		}
	}
	select {
	case b := <-x.to[g][e]:
		return b, nil
	case <-x.stop:
		return nil, errAborted
	case <-time.After(2 * patience):
		return nil, errors.New("the other end does not answer")
	}
}

// letter is a message between two processes.
type letter struct {
	Seed   uint64 // starts a program
	Group  int
	Data   []byte
	End    bool // of the program
	Failed bool
}

// totals are figures of a test.
type totals struct {
	programs, qps, ops, wcs, events int
	mem                             drawn
}

func newBed(t testing.TB, rxe testutil.RXE) bed {
	t.Helper()
	d, err := ibv.Open(rxe.Dev[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	port, err := d.QueryPort(rxe.Port)
	if err != nil {
		t.Fatal(err)
	}
	// With windows the programs take 200 s on SoftRoCE instead of 5.
	unbound := os.Getenv(unboundEnv) != "" || !rxe.Emulated && !testutil.Full()
	b := bed{emulated: rxe.Emulated, unbound: unbound, mtu: port.ActiveMTU.Bytes(),
		masked: rxe.Emulated && os.Getenv(ibv.DataPathEnv) != "ops"}
	for e, name := range rxe.Dev {
		if b.offers[e], err = offersOf(name, rxe.Emulated, rxe.Emulated && e == 0); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run runs the ends of a program that belong to this process.
func run(t testing.TB, p *program, rxe testutil.RXE, ends []int, x *exchange, tot *totals) bool {
	t.Helper()
	hosts := make(map[int]*host)
	for _, e := range ends {
		h, err := newHost(p, rxe.Dev[e])
		if err != nil {
			t.Errorf("seed %d: %v", p.seed, err)
			return false
		}
		hosts[e] = h
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	baton := newBaton(p.wire)
	good := true
	for _, g := range p.groups {
		for _, e := range ends {
			s := &station{p: p, g: g, e: e, m: newModel(p, g), h: hosts[e], rxe: rxe, stopped: x.stopped}
			s.swap = func(b []byte) ([]byte, error) {
				baton.give(e)
				defer baton.take(e, x.stop)
				return x.swap(g.num, e, b)
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				baton.take(e, x.stop)
				err := s.run()
				baton.give(e)
				if err != nil {
					x.abort()
				}
				mu.Lock()
				defer mu.Unlock()
				if e == ends[0] {
					tot.ops += s.ops
				}
				tot.wcs += s.wcs
				tot.events += s.events
				if err != nil {
					good = false
					if errors.Is(err, errAborted) {
						t.Logf("group %d, end %d: %v; missing: %s\n%s", g.num, e, err, s.missing(), s.stalled())
					} else {
						t.Errorf("%v\ngroup %d, end %d: %v\nthe last operations:\n%s%s", p, g.num, e, err, s.last(60),
							s.stalled())
					}
				}
			}()
		}
	}
	wg.Wait()
	if !good {
		return false // what is open stays so: the process ends
	}
	for _, e := range ends {
		if err := hosts[e].close(p.emulated); err != nil {
			t.Errorf("%v\nend %d: %v", p, e, err)
			good = false
		}
	}
	tot.programs++
	tot.mem.add(p)
	tot.qps = max(tot.qps, p.qps())
	return good
}

// seeds yields seeds until enough is done.
func seeds(t testing.TB, ops int, tot *totals, body func(seed uint64) bool) {
	t.Helper()
	first := uint64(1)
	if s := os.Getenv(seedEnv); s != "" {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
		first = n
	}
	var limit time.Duration
	if s := os.Getenv(soakEnv); s != "" {
		var err error
		if ops, err = strconv.Atoi(s); err != nil {
			if limit, err = time.ParseDuration(s); err != nil {
				t.Fatalf("%s: %q is neither a number nor a duration", soakEnv, s)
			}
		}
	}
	if os.Getenv(testutil.TierEnv) == "rxe" {
		ops = min(ops, 5000) // every one is a system call, or several
	}
	start := time.Now()
	for seed := first; limit == 0 && tot.ops < ops || limit > 0 && time.Since(start) < limit; seed++ {
		if !body(seed) {
			t.Fatalf("%s=%d makes this program again", seedEnv, seed)
		}
	}
	d := time.Since(start)
	t.Logf("%d programs from seed %d, up to %d QPs: %d operations, %d completions in %v; %.0f operations/s",
		tot.programs, first, tot.qps, tot.ops, tot.wcs, d.Round(time.Millisecond),
		float64(tot.ops)/d.Seconds())
}

// few logs which operations are left out on SoftRoCE.
func few(t testing.TB, b bed) {
	t.Helper()
	if !b.emulated {
		t.Log("SoftRoCE: without local keys that are none, failing receives, misaligned atomics, silent peers, " +
			"refused invalidations and events of QPs, where it differs from adapters; and without completions of QPs " +
			"that are gone, which it leaves in the CQ; without SRQs and fences, under which it stalls at times, and " +
			"but in a full run without memory windows, with which it is slow; 5000 operations")
	}
}

func TestRXE_Random(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	b := newBed(t, rxe)
	few(t, b)
	var tot totals
	seeds(t, 30000, &tot, func(seed uint64) bool {
		p := newProgram(seed, b)
		return run(t, p, rxe, []int{0, 1}, newExchange(p), &tot)
	})
	tot.mem.check(t, b)
}

// TestRXE_RandomInTurn lets one end act at a time, with separate doorbells and with addresses that are the same in
// every run.
func TestRXE_RandomInTurn(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	b := newBed(t, rxe)
	b.wire = true
	few(t, b)
	var tot totals
	single := false
	seeds(t, 3000, &tot, func(seed uint64) bool {
		p := newProgram(seed, b)
		single = p.groups[0].single
		return run(t, p, rxe, []int{0, 1}, newExchange(p), &tot)
	})
	tot.mem.check(t, b)
	t.Logf("completion events: %d, thread domains: %v", tot.events, single)
}

func TestRXE_RandomTwoProcesses(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	b := newBed(t, rxe)
	few(t, b)
	if n, err := strconv.Atoi(os.Getenv(childEnv)); err == nil {
		child(t, b, rxe, n)
		return
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "pair"), os.NewFile(uintptr(pair[1]), "pair")
	other := exec.Command(os.Args[0], "-test.run=^TestRXE_RandomTwoProcesses$", "-test.count=1", "-test.v")
	other.Env = append(os.Environ(), childEnv+"=3")
	other.ExtraFiles = []*os.File{theirs}
	other.Stdin = theirs // nothing is read there; a chroot has no /dev/null
	var out strings.Builder
	other.Stdout, other.Stderr = &out, &out
	other.WaitDelay = 5 * time.Second
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	enc, dec := gob.NewEncoder(mine), gob.NewDecoder(mine)
	var tot totals
	defer func() {
		_ = mine.Close()
		err := other.Wait()
		if err != nil || t.Failed() {
			t.Errorf("the other process: %v\n%s", err, out.String())
		}
	}()
	seeds(t, 15000, &tot, func(seed uint64) bool {
		if err := enc.Encode(&letter{Seed: seed}); err != nil {
			t.Error(err)
			return false
		}
		return apart(t, newProgram(seed, b), rxe, 0, enc, dec, &tot)
	})
	tot.mem.check(t, b)
}

// child is the second process, which runs the other ends of the programs.
func child(t *testing.T, b bed, rxe testutil.RXE, fd int) {
	f := os.NewFile(uintptr(fd), "pair")
	defer func() { _ = f.Close() }()
	enc, dec := gob.NewEncoder(f), gob.NewDecoder(f)
	var tot totals
	for {
		var l letter
		if err := dec.Decode(&l); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if !apart(t, newProgram(l.Seed, b), rxe, 1, enc, dec, &tot) {
			t.FailNow()
		}
	}
}

// apart runs one end of a program. The other process runs the other end.
func apart(t testing.TB, p *program, rxe testutil.RXE, e int, enc *gob.Encoder, dec *gob.Decoder, tot *totals) bool {
	x := newExchange(p)
	x.far = enc
	over := make(chan bool)
	go func() {
		for {
			var l letter
			if err := dec.Decode(&l); err != nil || l.Failed {
				x.abort()
				over <- false
				return
			}
			if l.End {
				over <- true
				return
			}
			x.to[l.Group][e] <- l.Data
		}
	}()
	good := run(t, p, rxe, []int{e}, x, tot)
	x.mu.Lock()
	_ = enc.Encode(&letter{End: good, Failed: !good})
	x.mu.Unlock()
	return <-over && good
}

// baton lets the ends run in turn, one at a time, if that is requested.
type baton struct {
	ch [2]chan struct{}
}

func newBaton(on bool) *baton {
	if !on {
		return nil
	}
	b := &baton{[2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	b.ch[0] <- struct{}{}
	return b
}

func (b *baton) take(e int, stop chan struct{}) {
	if b == nil {
		return
	}
	select {
	case <-b.ch[e]:
	case <-stop:
	}
}

func (b *baton) give(e int) {
	if b == nil {
		return
	}
	select {
	case b.ch[1-e] <- struct{}{}:
	default: // after a failure nobody takes it
	}
}
