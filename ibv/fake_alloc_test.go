package ibv

import (
	"os"
	"runtime"
	"testing"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// What is called for each message must not allocate, whichever way leads to C.
func TestFake_NoAllocs(t *testing.T) { testNoAllocs(t) }

func TestFake_NoAllocsFallback(t *testing.T) {
	needFake(t)
	inChild(t, os.Getenv(loader.PathEnv), []string{ccall.Env + "=fallback"}, func(t *testing.T) {
		if way, why := ccall.HotPath(); way != "cgocall" {
			t.Fatalf("calls go through %s (%s)", way, why)
		}
		testNoAllocs(t)
	})
}

func testNoAllocs(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Spin: None}, &QPOptions{MaxInline: 64, MaxSendSGE: 2})
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	ud := closing(t, must(s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: UD}))(t))
	must(ud.Endpoint(1, 1))(t)
	ok(t, ud.Connect(Endpoint{}, nil))
	ah := closing(t, must(s.pd.CreateAH(&AHAttr{Port: 1}))(t))

	wrs := make([]SendWR, 16)
	rwrs := make([]RecvWR, 16)
	for i := range wrs {
		wrs[i] = write(s, uint64(i), 0)
		rwrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{s.mr.SGE(0, 64)}}
	}
	inline := []SendWR{{Opcode: OpWrite, Inline: make([]byte, 64), Remote: s.mr.Remote().At(0)}}
	datagram := []SendWR{{Opcode: OpSend, SGEs: []SGE{s.mr.SGE(0, 64)}, AH: ah, RemoteQPN: ud.Num(),
		RemoteQKey: DefaultQKey}}
	wcs := make([]WC, 16)
	small := make([]byte, 32)
	none := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	must1 := func(n int, err error) {
		if err != nil || n == 0 {
			t.Fatalf("%d: %v", n, err)
		}
	}

	none("Poll of an empty CQ", func() {
		if n, err := s.cq.Poll(wcs); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
	none("Arm", func() {
		if err := s.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
	})
	set(t, "sink", 1)
	none("PostSend", func() { must1(s.qp.PostSend(wrs)) })
	none("PostSend inline", func() { must1(s.qp.PostSend(inline)) })
	none("PostSend UD", func() { must1(ud.PostSend(datagram)) })
	datagram[0].Flags = IPCsum
	none("PostSend UD with IPCsum", func() { must1(ud.PostSend(datagram)) })
	none("PostRecv", func() { must1(s.qp.PostRecv(rwrs)) })
	none("SRQ.PostRecv", func() { must1(srq.PostRecv(rwrs)) })
	to := s.mr.Remote().At(0)
	b, d := s.qp.Batch(), ud.Batch()
	none("Batch", func() {
		for i := range uint64(8) {
			b.Write(i, 0, s.mr.SGE(0, 64), to)
			b.SendInline(i, Signaled, small)
			b.FetchAdd(i, 0, s.mr.SGE(0, 8), to, 1)
			b.Add(&wrs[0])
		}
		if err := b.Post(); err != nil {
			t.Fatal(err)
		}
	})
	none("Batch of datagrams", func() {
		for i := range uint64(8) {
			d.SendTo(i, 0, s.mr.SGE(0, 64), ah, ud.Num(), DefaultQKey)
		}
		if err := d.Post(); err != nil {
			t.Fatal(err)
		}
	})
	unset(t, "sink")
	set(t, "flood", 1)
	none("Poll", func() { must1(s.cq.Poll(wcs)) })
	none("Poll of one", func() { must1(s.cq.Poll(wcs[:1])) })
	none("Wait with a completion", func() { must1(s.cq.Wait(t.Context(), wcs)) })
	unset(t, "flood")

	// What comes back when a queue is full or failed is made once.
	set(t, "post.at", 1)
	set(t, "post.errno", 12)
	none("PostSend to a full queue", func() {
		if _, err := s.qp.PostSend(wrs[:1]); err == nil {
			t.Fatal("no error")
		}
	})
	none("PostRecv to a full queue", func() {
		if _, err := s.qp.PostRecv(rwrs[:1]); err == nil {
			t.Fatal("no error")
		}
	})
	none("SRQ.PostRecv to a full queue", func() {
		if _, err := srq.PostRecv(rwrs[:1]); err == nil {
			t.Fatal("no error")
		}
	})
	set(t, "poll", -1)
	none("Poll that fails", func() {
		if _, err := s.cq.Poll(wcs); err == nil {
			t.Fatal("no error")
		}
	})
	runtime.KeepAlive(small)
}
