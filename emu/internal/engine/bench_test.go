//go:build linux

package engine

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// A peer is a process that maps the arena at the address where the test has it, so that the engine works between two
// processes.

const peerEnv = "ENGINE_TEST_PEER"

func TestMain(m *testing.M) {
	if v := os.Getenv(peerEnv); v != "" {
		peerMain(v)
	}
	os.Exit(m.Run())
}

func peerMain(v string) {
	var at, n uint64
	for i, s := range []byte(v) {
		if s == ',' {
			at, _ = strconv.ParseUint(v[:i], 10, 64)
			n, _ = strconv.ParseUint(v[i+1:], 10, 64)
		}
	}
	p, _, e := unix.Syscall6(unix.SYS_MMAP, uintptr(at), uintptr(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE, 3, 0)
	if e != 0 || uint64(p) != at {
		os.Exit(3)
	}
	_, _ = os.Stdout.Write([]byte("ok"))
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	os.Exit(0)
}

// share makes the rig's arena shared memory and starts a process that has it too.
func (r *rig) share(size int) (pid int) {
	r.t.Helper()
	fd, err := unix.MemfdCreate("arena", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "arena")
	r.t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		r.t.Fatal(err)
	}
	const at = 0x1100_0000_0000 // where the race detector has nothing
	p, _, e := unix.Syscall6(unix.SYS_MMAP, at, uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE, uintptr(fd), 0)
	if e != 0 {
		r.t.Fatal(e)
	}
	mem := memoryAt(p, size)
	r.t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_MUNMAP, p, uintptr(size), 0) })
	r.a = &arena{mem: mem}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), peerEnv+"="+strconv.Itoa(at)+","+strconv.Itoa(size))
	c.ExtraFiles = []*os.File{f}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { in.Close(); _ = c.Wait() })
	var b [2]byte
	if _, err := out.Read(b[:]); err != nil || string(b[:]) != "ok" {
		r.t.Fatal("the peer does not start")
	}
	return c.Process.Pid
}

// between connects this process with another one.
func between(t testing.TB, o qpOpts, strict bool) *pair {
	r := newRigOf(t, config.Default(), 4096)
	r.e.c.Strict = strict
	pid := r.share(64 << 20)
	p := &pair{r: r, a: r.node(0), b: r.nodeOf(0, pid)}
	p.acq, p.bcq = p.a.cq(1024, 64), p.b.cq(1024, 64)
	p.qa, p.qb = p.a.qp(p.acq, p.acq, o), p.b.qp(p.bcq, p.bcq, o)
	p.ma, p.mb = p.a.mr(8<<20, anyAccess), p.b.mr(8<<20, anyAccess)
	connect(defaults(), p.qa, p.qb)
	return p
}

func TestBetweenProcesses(t *testing.T) {
	p := between(t, qpOpts{}, true)
	for i := range 20 {
		fill(p.ma.buf[:9000], byte(i))
		p.qb.recv(p.mb.sge(0, 10000))
		p.qa.send(opSend, signaled, 0, p.ma.sge(0, 9000))
		p.acq.want(0, -1)
		p.bcq.want(cqeRespSend, 9000)
		if string(p.ma.buf[:9000]) != string(p.mb.buf[:9000]) {
			t.Fatal("payload")
		}
		addr, key := p.mb.at(100)
		p.qa.send(opRead, signaled, 0, raddr(addr, key), p.ma.sge(20000, 5000))
		p.acq.want(0, 5000)
		if string(p.ma.buf[20000:25000]) != string(p.mb.buf[100:5100]) {
			t.Fatal("payload of the read")
		}
	}
	p.r.clean()
}

func TestPeerDies(t *testing.T) {
	p := between(t, qpOpts{}, true)
	proc, _ := os.FindProcess(p.b.ctx.Mem.PID)
	_ = proc.Kill()
	time.Sleep(20 * time.Millisecond)
	addr, key := p.mb.at(100)
	p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 100))
	p.acq.wantErr(cqeReqErr, synRetry)
	p.r.clean()
}

func benchmark(b *testing.B, size, list int, inline bool) {
	p := between(b, qpOpts{sq: 1024}, false)
	addr, key := p.mb.at(0)
	r := raddr(addr, key)
	data := p.ma.sge(0, size)
	if inline {
		data = inlineSeg(p.ma.buf[:size])
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	out := 0
	for i := 0; i < b.N; i += list {
		for k := range list {
			flags := uint8(0)
			if k == list-1 {
				flags = signaled
			}
			p.qa.post(opWrite, flags, 0, r, data)
		}
		p.qa.ring()
		out++
		for out > 4 || i+list >= b.N && out > 0 {
			p.r.e.turn()
			for {
				if _, ok := p.acq.poll(); !ok {
					break
				}
				out--
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkWrite64K(b *testing.B)     { benchmark(b, 65536, 1, false) }
func BenchmarkWrite1M(b *testing.B)      { benchmark(b, 1<<20, 1, false) }
func BenchmarkWrite8(b *testing.B)       { benchmark(b, 8, 16, false) }
func BenchmarkWrite8Inline(b *testing.B) { benchmark(b, 8, 16, true) }
func BenchmarkWrite8Single(b *testing.B) { benchmark(b, 8, 1, true) }

func TestAllocs(t *testing.T) {
	p := between(t, qpOpts{sq: 1024, rq: 64}, false)
	addr, key := p.mb.at(0)
	r, data := raddr(addr, key), p.ma.sge(0, 8)
	recv := p.mb.sge(0, 64)
	// The program's side allocates; the engine's must not.
	for _, op := range []uint8{opWrite, opSend, opRead, opAtomicFA} {
		total := uint64(0)
		for round := range 60 {
			for i := range 8 {
				flags := uint8(0)
				if i == 7 {
					flags = signaled
				}
				switch op {
				case opSend:
					p.qb.recv(recv)
					p.qa.post(op, flags, 0, data)
				case opAtomicFA:
					p.qa.post(op, flags, 0, r, seg(uint64(1), uint64(0)), data)
				default:
					p.qa.post(op, flags, 0, r, data)
				}
			}
			p.qa.ring()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p.r.e.turn()
			runtime.ReadMemStats(&after)
			if round >= 10 { // caches are made at first
				total += after.Mallocs - before.Mallocs
			}
			p.r.settle()
			p.acq.want(0, -1)
			for op == opSend {
				if _, ok := p.bcq.poll(); !ok {
					break
				}
			}
		}
		if total >= 50 { // others in the process allocate too
			t.Errorf("opcode %#x: %v allocations in 50 batches", op, total)
		}
	}
}
