package mlx5_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// sharedRQ is the device's side of an SRQ: it follows the links from the first WQE on, as far as the doorbell record
// lets it.
type sharedRQ struct {
	d      *device
	stride int
	at     int    // next WQE
	taken  uint16 // so many
}

// available is the number of WQEs that the device may take, which is what an SRQ's limit is compared with.
func (s *sharedRQ) available() int { return int(recordOf(s.d.t, s.d.srqdb) - s.taken) }

// take takes the next WQE and gives its index.
func (s *sharedRQ) take() int {
	if s.available() == 0 {
		s.d.t.Fatal("the device has no WQE to take")
	}
	i := s.at
	s.at = int(binary.BigEndian.Uint16(s.d.srq[i*s.stride+2:]))
	s.taken++
	return i
}

// next takes the next WQE and gives its index and its list.
func (s *sharedRQ) next() (int, []mlx5.SGE) {
	s.d.t.Helper()
	i := s.take()
	var list []mlx5.SGE
	for w := s.d.srq[i*s.stride:][16:s.stride]; len(w) > 0; w = w[16:] {
		e := mlx5.SGE{Length: binary.BigEndian.Uint32(w), LKey: binary.BigEndian.Uint32(w[4:]),
			Addr: binary.BigEndian.Uint64(w[8:])}
		if e == (mlx5.SGE{LKey: 0x100}) {
			break
		}
		list = append(list, e)
	}
	return i, list
}

func newSRQ(t testing.TB, wqes, stride, cqes int) (*device, *mlx5.SRQ, *mlx5.QP, *mlx5.CQ, *spin.Lock) {
	t.Helper()
	d := newDevice(t, size{srqWQEs: wqes, srqStride: stride, cqes: cqes, cqeSize: 64})
	mu := new(spin.Lock)
	s := d.newSRQ(stride, stride/16-1, mu)
	q := mlx5.NewQP(qpn, true, nil, nil, s)
	tab := new(mlx5.Table)
	tab.Add(q)
	return d, s, q, d.newCQ(tab), mu
}

func TestSRQWQE(t *testing.T) {
	d, s, _, _, _ := newSRQ(t, 4, 64, 4)
	l, e := *local, *empty
	wrs := []mlx5.RecvWR{{ID: 1, SGEs: []mlx5.SGE{l}}, {ID: 2, SGEs: []mlx5.SGE{l, l, l}},
		{ID: 3, SGEs: []mlx5.SGE{e, l}}, {ID: 4}}
	for i := range 4 {
		fill(d.srq[i*64+16 : i*64+64])
	}
	if n := s.Post(wrs); n != 3 {
		t.Fatalf("took %d, want 3: one WQE stays free", n)
	}
	rest := "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	same(t, "ring", d.srq, parse(t, ""+
		"0000 0001 00 0000000000000000000000\n"+data+end+rest+"\n"+
		"0000 0002 00 0000000000000000000000\n"+data+data+data+
		// libmlx5 leaves no empty SGE out here, which the device would take for 2 GiB
		"0000 0003 00 0000000000000000000000\n"+data+end+rest+
		"0000 0004 00 0000000000000000000000\n"+rest+rest+rest))
	same(t, "doorbell record", d.srqdb, []byte{0, 0, 0, 3})
}

func TestSRQTooManySGEs(t *testing.T) {
	d, s, _, _, _ := newSRQ(t, 4, 64, 4)
	wrs := recvs(1, 3)
	wrs[1].SGEs = make([]mlx5.SGE, 4)
	if n := s.Post(wrs); n != 1 || recordOf(t, d.srqdb) != 1 {
		t.Errorf("took %d, record %d", n, recordOf(t, d.srqdb))
	}
}

// The device takes WQEs in the order of the list and completes them in any; the free ones go around for ever, the count
// has 16 bits, and the SRQ is full exactly when all but one are posted.
func TestSRQ(t *testing.T) {
	const wqes = 16
	d, s, q, cq, _ := newSRQ(t, wqes, 32, 4*wqes)
	hw := &sharedRQ{d: d, stride: 32}
	r := rand.New(rand.NewPCG(1, 2))
	type flight struct {
		wqe int
		id  uint64
	}
	var queue []uint64    // posted, not taken
	var inFlight []flight // taken, not completed
	id := uint64(0)
	for step := range 30000 {
		if room, k := wqes-1-len(queue)-len(inFlight), 1+r.IntN(6); r.IntN(2) == 0 {
			wrs := make([]mlx5.RecvWR, k)
			for i := range wrs {
				wrs[i] = mlx5.RecvWR{ID: id + uint64(i), SGEs: []mlx5.SGE{{Addr: id + uint64(i), Length: 5, LKey: 6}}}
			}
			n := s.Post(wrs)
			if n != min(room, k) {
				t.Fatalf("step %d: took %d of %d, want %d", step, n, k, min(room, k))
			}
			for range n {
				queue = append(queue, id)
				id++
			}
		}
		if hw.available() != len(queue) {
			t.Fatalf("step %d: the device sees %d WQEs, want %d", step, hw.available(), len(queue))
		}
		for range min(len(queue), r.IntN(5)) {
			w, list := hw.next()
			if len(list) != 1 || list[0] != (mlx5.SGE{Addr: queue[0], Length: 5, LKey: 6}) {
				t.Fatalf("step %d: WQE %d holds %v, want that of receive %d", step, w, list, queue[0])
			}
			inFlight = append(inFlight, flight{w, queue[0]})
			queue = queue[1:]
		}
		r.Shuffle(len(inFlight), func(i, j int) { inFlight[i], inFlight[j] = inFlight[j], inFlight[i] })
		k := r.IntN(len(inFlight) + 1)
		for i, f := range inFlight[:k] {
			c := cqe{op: 2, qpn: qpn, counter: uint16(f.wqe), bytes: 3}
			if i%4 == 3 {
				c = cqe{op: 14, qpn: qpn, counter: uint16(f.wqe), syndrome: 5}
			}
			d.put(c)
		}
		if r.IntN(10) == 0 { // they are lost with the QP, but not to the SRQ
			cq.Purge(q)
			poll(t, cq, 0)
		} else {
			for i, wc := range poll(t, cq, k) {
				if wc.ID != inFlight[i].id || wc.Status != []uint32{0, 0, 0, 5}[i%4] {
					t.Fatalf("step %d: completion %d is %+v, want receive %d", step, i, wc, inFlight[i].id)
				}
			}
		}
		inFlight = inFlight[k:]
	}
	if id < 70000/3 || q.Broken() {
		t.Fatal(id, q.Broken())
	}
}

// The count goes on from where libmlx5 left it, and around.
func TestSRQCount(t *testing.T) {
	d := newDevice(t, size{srqWQEs: 4, srqStride: 32, cqes: 8, cqeSize: 64})
	binary.BigEndian.PutUint32(d.srqdb, 0xfffe)
	s := d.newSRQ(32, 1, new(spin.Lock))
	s.Post(recvs(1, 3))
	same(t, "doorbell record", d.srqdb, []byte{0, 0, 0, 1})
}

// The list may begin and end anywhere: what is behind its end is libmlx5's.
func TestSRQPartial(t *testing.T) {
	d := newDevice(t, size{srqWQEs: 8, srqStride: 32, cqes: 8, cqeSize: 64})
	s := mlx5.NewSRQ(&mlx5.SRQConfig{Buf: ptr(d.srq), Stride: 32, MaxSGE: 1, Head: 2, Tail: 5, WQEs: 8,
		DBRec: ptr(d.srqdb)}, new(spin.Lock))
	before := append([]byte(nil), d.srq...)
	if n := s.Post(recvs(1, 8)); n != 3 {
		t.Fatalf("took %d, want 3", n)
	}
	same(t, "what is before", d.srq[:2*32], before[:2*32])
	same(t, "what is behind", d.srq[5*32:], before[5*32:])
}

// A page fault gives a receive back unused: it is posted again at once, without a completion, with its list and its id.
func TestSRQPageFault(t *testing.T) {
	const wqes = 4
	d, s, q, cq, _ := newSRQ(t, wqes, 64, 4*wqes)
	hw := &sharedRQ{d: d, stride: 64}
	sges := func(i int) []mlx5.SGE {
		return []mlx5.SGE{{Addr: uint64(i), Length: 1, LKey: 2}, {Addr: uint64(i + 1), Length: 3, LKey: 4}}
	}
	for i := range wqes - 1 { // full: only the free one is left to post it in
		if s.Post([]mlx5.RecvWR{{ID: uint64(i), SGEs: sges(i)}}) != 1 {
			t.Fatal(i)
		}
	}
	w, _ := hw.next()
	for i := range 10 { // again and again
		d.put(cqe{op: 14, qpn: qpn, counter: uint16(w), syndrome: 0x22, vendor: 0x93})
		poll(t, cq, 0)
		if hw.available() != wqes-1 {
			t.Fatalf("fault %d: the device sees %d WQEs, want %d", i, hw.available(), wqes-1)
		}
		if n := s.Post(recvs(0, 1)); n != 0 {
			t.Fatal("the reposted receive left room")
		}
		// The others are before it.
		for k := 1; k < wqes-1 && i == 0; k++ {
			o, list := hw.next()
			if len(list) != 2 || list[0] != sges(k)[0] {
				t.Fatalf("receive %d holds %v", k, list)
			}
			d.got(qpn, uint16(o), 1)
			if wc := poll(t, cq, 1)[0]; wc.ID != uint64(k) {
				t.Fatalf("%+v", wc)
			}
			if s.Post([]mlx5.RecvWR{{ID: uint64(100 + k), SGEs: sges(100 + k)}}) != 1 {
				t.Fatal("no room")
			}
		}
		for k := 0; ; k++ {
			o, list := hw.next()
			if len(list) == 2 && list[0] == sges(0)[0] && list[1] == sges(0)[1] {
				w = o
				break
			}
			if k > wqes {
				t.Fatal("the reposted receive is not in the list")
			}
			d.put(cqe{op: 14, qpn: qpn, counter: uint16(o), syndrome: 0x22, vendor: 0x93})
			poll(t, cq, 0)
		}
	}
	d.got(qpn, uint16(w), 1)
	if wc := poll(t, cq, 1)[0]; wc.ID != 0 || wc.Status != 0 {
		t.Fatalf("%+v", wc)
	}
	// The same syndrome with another vendor's code, or the code with another syndrome, is a failure like others.
	w, _ = hw.next()
	d.put(cqe{op: 14, qpn: qpn, counter: uint16(w), syndrome: 0x22, vendor: 0x92})
	if wc := poll(t, cq, 1)[0]; wc.Status != 16 || wc.VendorErr != 0x92 {
		t.Fatalf("%+v", wc)
	}
	if q.Broken() {
		t.Fatal("broken")
	}
	// A fault of what is not posted is none.
	d.put(cqe{op: 14, qpn: qpn, counter: uint16(w), syndrome: 0x22, vendor: 0x93})
	if _, err := cq.Poll(make([]mlx5.WC, 1)); err == nil || !q.Broken() {
		t.Fatal(err)
	}
}

// After a page fault a WQE waits behind the spare ones that libmlx5 has made, so that other receives are not written
// over it soon. Without spare ones it is the last free WQE.
//
// C: mlx5_complete_odp_fault, srq_cooldown_wqe (rdma-core v44.0, providers/mlx5/srq.c:112, 153).
func TestSRQPageFaultCools(t *testing.T) {
	const stride = 32
	for _, tt := range []struct {
		wqes, spare int
		broken      int // a link among the spare ones, or -1
		want        int // spare ones that are used
	}{
		{4, 0, -1, 0}, {4, 1, -1, 1}, {4, 4, -1, 4}, {8, 8, -1, 8}, {8, 120, -1, 120}, {4, 4, 5, 0},
	} {
		n := tt.wqes + tt.spare
		d := newDevice(t, size{srqWQEs: n, srqStride: stride, cqes: 8, cqeSize: 64})
		if tt.broken >= 0 {
			binary.BigEndian.PutUint16(d.srq[tt.broken*stride+2:], 0)
		}
		c := &mlx5.SRQConfig{Buf: ptr(d.srq), Stride: stride, MaxSGE: 1, Tail: uint32(tt.wqes - 1),
			WQEs: uint32(tt.wqes), DBRec: ptr(d.srqdb)}
		if c.AddSpare(uint32(n)); int(c.Spare) != tt.want {
			t.Fatalf("%+v: %d spare WQEs", tt, c.Spare)
		}
		s := mlx5.NewSRQ(c, new(spin.Lock))
		q, tab := mlx5.NewQP(qpn, true, nil, nil, s), new(mlx5.Table)
		tab.Add(q)
		cq := d.newCQ(tab)
		hw := &sharedRQ{d: d, stride: stride}
		fault := func(w int) {
			d.put(cqe{op: 14, qpn: qpn, counter: uint16(w), syndrome: 0x22, vendor: 0x93})
			poll(t, cq, 0)
		}
		s.Post(recvs(7, 1))
		first, _ := hw.next()
		list := slices.Clone(d.srq[first*stride+16:][:16])
		fault(first)
		takes, w := 1, hw.take()
		for ; w != first && takes <= 2*n; takes++ {
			same(t, "the list of the WQE that waits", d.srq[first*stride+16:][:16], list)
			fault(w)
			w = hw.take()
		}
		if takes != tt.wqes+tt.want {
			t.Errorf("%+v: the device has it again after %d others, want %d", tt, takes, tt.wqes+tt.want)
		}
		d.got(qpn, uint16(w), 1)
		poll(t, cq, 1)
		// A full queue has faults of all its receives, and completes them, again and again.
		for i := range 3 * n {
			if k := s.Post(recvs(i, tt.wqes)); k != tt.wqes-1 {
				t.Fatalf("%+v: round %d took %d receives, want %d", tt, i, k, tt.wqes-1)
			}
			for range tt.wqes - 1 {
				fault(hw.take())
			}
			for k := range tt.wqes - 1 {
				d.got(qpn, uint16(hw.take()), 1)
				if wc := poll(t, cq, 1)[0]; wc.ID != uint64(i+k) {
					t.Fatalf("%+v: round %d: %+v", tt, i, wc)
				}
			}
		}
		if tt.want == 0 {
			continue
		}
		s.Post(recvs(0, 1))
		w = hw.take()
		for i := range n { // links that were overwritten lead nowhere
			binary.BigEndian.PutUint16(d.srq[i*stride+2:], uint16(n))
		}
		d.put(cqe{op: 14, qpn: qpn, counter: uint16(w), syndrome: 0x22, vendor: 0x93})
		if _, err := cq.Poll(make([]mlx5.WC, 1)); err == nil || !q.Broken() {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestSRQCorrupt(t *testing.T) {
	for _, counter := range []uint16{3, 4, 0xffff} { // 3 stays free
		d, s, q, cq, _ := newSRQ(t, 4, 32, 8)
		s.Post(recvs(1, 3))
		d.got(qpn, counter, 1)
		if n, err := cq.Poll(make([]mlx5.WC, 2)); n != 0 || err == nil || !q.Broken() {
			t.Errorf("WQE %d: %d completions, error %v", counter, n, err)
		}
	}
	// Twice is once too often.
	d, s, q, cq, _ := newSRQ(t, 4, 32, 8)
	s.Post(recvs(1, 3))
	d.got(qpn, 1, 1)
	d.got(qpn, 1, 1)
	poll(t, cq, 1)
	if n, err := cq.Poll(make([]mlx5.WC, 2)); n != 0 || err == nil || !q.Broken() {
		t.Errorf("%d completions, error %v", n, err)
	}
	// A fault with no link to follow.
	d, s, q, cq, _ = newSRQ(t, 4, 32, 8)
	s.Post(recvs(1, 1))
	binary.BigEndian.PutUint16(d.srq[32+2:], 9)
	d.put(cqe{op: 14, qpn: qpn, syndrome: 0x22, vendor: 0x93})
	if n, err := cq.Poll(make([]mlx5.WC, 2)); n != 0 || err == nil || !q.Broken() {
		t.Errorf("%d completions, error %v", n, err)
	}
	// A link that was overwritten leads nowhere, and no further receive is posted.
	for _, to := range []uint16{0xffff, 4, 0} {
		d, s, _, _, _ := newSRQ(t, 4, 32, 8)
		s.Post(recvs(1, 1))
		binary.BigEndian.PutUint16(d.srq[32+2:], to)
		if n := s.Post(recvs(2, 2)); n != 0 || recordOf(t, d.srqdb) != 1 {
			t.Errorf("link to %d: took %d", to, n)
		}
	}
}

// CQs of several QPs give WQEs back while others post.
func TestSRQConcurrent(t *testing.T) {
	const wqes, rounds = 64, 2000
	tab := new(mlx5.Table)
	d := newDevice(t, size{srqWQEs: wqes, srqStride: 32})
	mu := new(spin.Lock)
	s := d.newSRQ(32, 1, mu)
	var wg sync.WaitGroup
	work := make(chan uint16, wqes) // WQEs that the device took, to be completed on any CQ
	for i := range 3 {
		c := newDevice(t, size{cqes: wqes, cqeSize: 64})
		q := mlx5.NewQP(uint32(100+i), true, nil, nil, s)
		tab.Add(q)
		cq := c.newCQ(tab)
		wg.Go(func() {
			wcs := make([]mlx5.WC, 4)
			for w := range work {
				c.got(q.Num, w, 1)
				if n, err := cq.Poll(wcs); n != 1 || err != nil {
					t.Errorf("%d completions, error %v", n, err)
				}
			}
		})
	}
	hw := &sharedRQ{d: d, stride: 32}
	for done := 0; done < rounds; {
		mu.Lock()
		s.Post(recvs(done, 8))
		mu.Unlock()
		mu.Lock() // the poller stores links while the device would load others
		for hw.available() > 0 {
			w, _ := hw.next()
			work <- uint16(w)
			done++
		}
		mu.Unlock()
	}
	close(work)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if n := s.Post(recvs(0, wqes)); n != wqes-1 {
		t.Errorf("%d WQEs are left, want %d", n, wqes-1)
	}
}
