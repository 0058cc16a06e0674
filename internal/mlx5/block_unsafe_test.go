package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Formats of receives in blocks. C: enum mlx5dv_cqe_comp_res_format.
const (
	formatHash = 1 << iota
	formatChecksum
	formatStride
)

// block writes completions as one block. What the device does not write keeps what was there.
func (d *device) block(format uint32, cs []cqe) {
	first, n := d.pi, uint32(len(d.cq)/d.cqeSize)
	title := cs[0]
	title.format, title.bytes = 3, uint32(len(cs))
	d.put(title)
	for i := 0; i < len(cs); i += 8 {
		var array [64]byte
		copy(array[:], unused) // more than is used is written
		for k, c := range cs[i:min(i+8, len(cs))] {
			w := array[8*k:]
			clear(w[:8])
			switch {
			case c.op == 0:
				binary.BigEndian.PutUint16(w, c.counter)
				w[2] = c.sendOp
			case format == formatStride:
				binary.BigEndian.PutUint16(w[2:], c.counter)
			}
			binary.BigEndian.PutUint32(w[4:], c.bytes)
		}
		e := d.cq[int((first+uint32(max(i, 1)))%n)*d.cqeSize:][:d.cqeSize]
		copy(e[d.cqeSize-64:], array[:])
	}
	d.pi = first + uint32(len(cs))
}

var unused = bytes.Repeat([]byte{0xa5}, 64)

// joins reports whether c may be in a block behind last.
func joins(format uint32, last, c *cqe) bool {
	plain := func(c *cqe) bool { return c.format == 0 && (c.op == 0 || c.op == 2) }
	if !plain(last) || !plain(c) || last.op != c.op || last.qpn != c.qpn || last.rqpn != c.rqpn {
		return false
	}
	return c.op == 0 || format == formatStride || c.counter == last.counter+1
}

// write writes completions, those that may be in a block as blocks or not.
func (d *device) write(r *rand.Rand, format uint32, cs []cqe) (blocks int) {
	for len(cs) > 0 {
		n := 1
		for n < len(cs) && joins(format, &cs[n-1], &cs[n]) && r.IntN(12) > 0 {
			n++
		}
		if n > 1 && r.IntN(8) > 0 {
			d.block(format, cs[:n])
			blocks++
		} else {
			for _, c := range cs[:n] {
				d.put(c)
			}
		}
		cs = cs[n:]
	}
	return blocks
}

// Random completions of sends and receives of two QPs, one of them on an SRQ, come in blocks or plain, with errors,
// immediate data and payloads between them. Poll returns what the model says, at any place of the ring and on any lap;
// purging a QP takes its completions out of blocks too.
func TestBlocks(t *testing.T) {
	for _, format := range []uint32{formatHash, formatChecksum, formatStride} {
		for _, cqeSize := range []int{64, 128} {
			for _, cqes := range []int{8, 64} {
				t.Run(fmt.Sprintf("%d/%d/%d", format, cqeSize, cqes), func(t *testing.T) {
					testBlocks(t, format, cqeSize, cqes)
				})
			}
		}
	}
}

func testBlocks(t *testing.T, format uint32, cqeSize, cqes int) {
	r := rand.New(rand.NewPCG(uint64(cqes), uint64(cqeSize)<<8|uint64(format)))
	const entries, shared = 64, 0x200
	d := newDevice(t, size{blocks: entries, rqWQEs: entries, rqStride: 16, srqWQEs: 2 * entries, srqStride: 32,
		cqes: cqes, cqeSize: cqeSize})
	s := d.newSRQ(32, 1, new(spin.Lock))
	hw := &sharedRQ{d: d, stride: 32}
	tab := new(mlx5.Table)
	q := mlx5.NewQP(qpn, true, d.sqConfig(), d.rqConfig(16, 1), nil)
	tab.Add(q)
	var other *mlx5.QP
	remake := func() {
		other = mlx5.NewQP(shared, true, newDevice(t, size{blocks: entries}).sqConfig(), nil, s)
		tab.Add(other)
	}
	remake()
	cq := d.newCQ(tab)
	cq.Compress(format)
	var (
		want               []mlx5.WC
		id                 uint64
		sent, alien, recvd uint16 // blocks of q and other, receives of q
		blocks             int
	)
	steps := 300
	if testutil.Full() {
		steps = 10000
	}
	for step := range steps {
		var cs []cqe
		for room := r.IntN(cqes - len(want) + 1); room > 0; {
			kind := r.IntN(10)
			for range min(room, 1+r.IntN(20)) {
				room--
				id++
				c, wc := cqe{qpn: qpn, bytes: uint32(r.IntN(1 << 20))}, mlx5.WC{ID: id, QPN: qpn}
				switch kind {
				case 0, 1, 2, 3: // sends
					at, to := &sent, q
					if kind == 3 {
						c.qpn, wc.QPN, at, to = shared, shared, &alien, other
					}
					if !to.SQ.Send(id, wrSend, signaled, 0, local) {
						continue
					}
					to.SQ.Ring()
					c.counter, c.sendOp = *at, 0x0a
					if r.IntN(3) == 0 { // another opcode in the same block
						c.sendOp, wc.Opcode, wc.ByteLen = 0x10, 2, c.bytes
					}
					*at++
				case 4, 5, 6: // receives of the SRQ
					if s.Post(recvs(int(id), 1)) != 1 {
						continue
					}
					c.qpn, wc.QPN, c.op, wc.Opcode, wc.ByteLen = shared, shared, 2, 128, c.bytes
					c.counter = uint16(hw.take())
				default:
					if q.RQ.Post(recvs(int(id), 1)) != 1 {
						continue
					}
					c.op, c.counter, wc.Opcode, wc.ByteLen = 2, recvd, 128, c.bytes
					recvd++
					switch r.IntN(12) {
					case 0:
						c.op, c.imm = 3, 7
						wc.Flags, wc.Imm, wc.PKeyIndex = 2, 7, 7
					case 1:
						c.rqpn, wc.SrcQPN = 77, 77
					case 2: // the payload is too long for what was posted
						c.format, c.bytes, wc.Status = 1, 40, 1
						wc.ByteLen = 40
					case 3:
						c.op, c.syndrome, c.vendor = 14, 0x11, 9
						wc.Opcode, wc.ByteLen, wc.Status, wc.VendorErr = 0, 0, 8, 9
					}
				}
				cs, want = append(cs, c), append(want, wc)
			}
		}
		blocks += d.write(r, format, cs)
		if r.IntN(50) == 0 {
			cq.Purge(other)
			want = slices.DeleteFunc(want, func(wc mlx5.WC) bool { return wc.QPN == shared })
			remake()
			alien = 0
		}
		for todo := r.IntN(len(want) + 1); todo > 0; {
			wcs := make([]mlx5.WC, 1+r.IntN(todo))
			n, err := cq.Poll(wcs)
			if err != nil || n == 0 {
				t.Fatalf("step %d: %d completions, %v; want %d more", step, n, err, len(want))
			}
			for i := range n {
				wcs[i].Timestamp = 0
				if wcs[i] != want[i] {
					t.Fatalf("step %d:\n got %+v\nwant %+v", step, wcs[i], want[i])
				}
			}
			want, todo = want[n:], todo-n
		}
		if len(want) == 0 && (!cq.Empty() || d.consumed() != d.pi&0xffffff) {
			t.Fatalf("step %d: empty: %v; consumer index %d, producer's %d", step, cq.Empty(), d.consumed(), d.pi)
		}
	}
	if blocks < steps/10 {
		t.Errorf("%d blocks only", blocks)
	}
}

// A title that no block can have is reported again and again, since nobody knows where the next entry begins. On a CQ
// without compression it is an entry that cannot be, as before; and so is a title of an error.
func TestBlockCorrupt(t *testing.T) {
	for _, c := range []struct {
		name   string
		format uint32
		cqe    cqe
		say    string
		ever   bool
	}{
		{"none", formatHash, cqe{op: 2, bytes: 0}, "as many completions as no block has", true},
		{"one", formatHash, cqe{op: 2, bytes: 1}, "as many completions as no block has", true},
		{"more than the ring", formatHash, cqe{bytes: 17}, "as many completions as no block has", true},
		{"not asked for", 0, cqe{op: 2, bytes: 4}, "a payload that it cannot carry", false},
		{"error", formatChecksum, cqe{op: 13, bytes: 4}, "a WQE that is not posted, in error", false},
	} {
		d, q, cq := newPair(t, 16, 64)
		cq.Compress(c.format)
		if q.RQ.Post(recvs(1, 1)) != 1 {
			t.Fatal("full")
		}
		c.cqe.format, c.cqe.qpn = 3, qpn
		d.put(c.cqe)
		for again := range 3 {
			var wcs [4]mlx5.WC
			n, err := cq.Poll(wcs[:])
			var ce *mlx5.CQEError
			if again > 0 && !c.ever {
				if n != 0 || err != nil {
					t.Errorf("%s: %d, %v after the error", c.name, n, err)
				}
				continue
			}
			if n != 0 || !errors.As(err, &ce) || !strings.Contains(err.Error(), c.say) || ce.Index != 0 {
				t.Errorf("%s: %d, %v, want %q", c.name, n, err, c.say)
			}
		}
		cq.Purge(q) // does not run into it
	}
}

// Each completion of a block has its own hash or checksum, where an entry has it that is in no block.
func TestBlockWords(t *testing.T) {
	for _, c := range []struct {
		format uint32
		at, n  int
	}{{formatHash, 12, 4}, {formatChecksum, 20, 2}, {formatStride, 20, 2}} {
		d, q, cq := newPair(t, 16, 64)
		cq.Compress(c.format)
		if q.RQ.Post(recvs(1, 3)) != 3 {
			t.Fatal("full")
		}
		d.block(c.format, []cqe{{op: 2, qpn: qpn}, {op: 2, qpn: qpn, counter: 1}, {op: 2, qpn: qpn, counter: 2}})
		word := func(i int) []byte { return []byte{byte(0x10 + i), byte(0x20 + i), byte(0x30 + i), byte(0x40 + i)} }
		for i := range 3 {
			copy(d.cq[64+8*i:][:c.n], word(i))
		}
		var wcs [4]mlx5.WC
		for got := 0; got < 3; { // arm64 looks ahead for what it takes at once, and a block ends that
			n, err := cq.Poll(wcs[got:])
			if n == 0 || err != nil {
				t.Fatal(n, err)
			}
			got += n
		}
		if wcs[2].ID != 3 {
			t.Errorf("%d: %+v", c.format, wcs)
		}
		for i := range 3 {
			same(t, fmt.Sprint("entry ", i), d.cq[64*i+c.at:][:c.n], word(i)[:c.n])
		}
	}
}

// Blocks are expanded without an allocation.
func TestBlockNoAllocation(t *testing.T) {
	d, q, cq := newPair(t, 16, 64)
	cq.Compress(formatHash)
	var wcs [16]mlx5.WC
	at, list := uint16(0), recvs(1, 16)
	cs := make([]cqe, 16)
	if n := testing.AllocsPerRun(100, func() {
		q.RQ.Post(list)
		for i := range cs {
			cs[i] = cqe{op: 2, qpn: qpn, counter: at}
			at++
		}
		d.block(formatHash, cs)
		for got := 0; got < 16; { // arm64 looks ahead for what it takes at once, and a block ends that
			n, err := cq.Poll(wcs[:])
			if n == 0 || err != nil {
				t.Fatal(got, n, err)
			}
			got += n
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPollBlock16(b *testing.B) {
	d, q, cq := newPair(b, 16, 64)
	cq.Compress(formatHash)
	var wcs [16]mlx5.WC
	at, list := uint16(0), recvs(1, 16)
	cs := make([]cqe, 16)
	for b.Loop() {
		q.RQ.Post(list)
		for i := range cs {
			cs[i] = cqe{op: 2, qpn: qpn, counter: at}
			at++
		}
		d.block(formatHash, cs)
		for got := 0; got < 16; {
			n, err := cq.Poll(wcs[:])
			if n == 0 || err != nil {
				b.Fatal(got, n, err)
			}
			got += n
		}
	}
}
