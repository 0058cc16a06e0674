package rdma

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		h    header
		want string
	}{
		{header{kind: kindData, flags: flagMore | flagImm, seq: 0x0201, limit: 0x06050403, length: 0x0a090807,
			aux: 0x0e0d0c0b}, "\x00\x03\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e"},
		{header{kind: kindPing, flags: flagIgnore}, "\x04\x04" + strings.Repeat("\x00", 14)},
	} {
		b := make([]byte, headerLen)
		c.h.put(b)
		if string(b) != c.want || parseHeader(b) != c.h {
			t.Errorf("%+v: % x, and back %+v", c.h, b, parseHeader(b))
		}
	}
	if kindFIN.String() != "FIN" || frameKind(17).String() != "frame kind 17" {
		t.Errorf("%v, %v", kindFIN, frameKind(17))
	}
}

func TestNumbersWrap(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want bool
	}{{1, 2, true}, {2, 1, false}, {5, 5, false}, {1<<32 - 1, 0, true}, {0, 1<<32 - 1, false}, {1<<32 - 10, 20, true}} {
		if before(c.a, c.b) != c.want {
			t.Errorf("before(%d, %d) is %v", c.a, c.b, !c.want)
		}
	}
}

func TestHello(t *testing.T) {
	good := hello{min: 1, max: 1, kind: kindStream, block: 32 << 10, limit: 2, maxMessage: 1 << 20}
	copy(good.app[:], "sixteen bytes.  ")
	b := good.encode()
	want := "PVR1\x01\x01\x02\x00\x00\x80\x00\x00\x02\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00sixteen bytes.  "
	if string(b) != want {
		t.Errorf("encoded %q", b)
	}
	padded := append(bytes.Clone(b), make([]byte, 16)...)
	if h, _, err := parseHello(padded, kindStream); err != nil || h != good {
		t.Errorf("%+v, %v", h, err)
	}
	var version *VersionError
	if _, reason, err := parseHello(append([]byte("PVR1\x02\x03"), b[6:]...), kindStream); !errors.As(err, &version) ||
		reason != rejectVersion || version.PeerMax != 3 {
		t.Errorf("a later version: %v", err)
	}
	newer := append([]byte("PVR1\x01\x09"), b[6:]...)
	if _, _, err := parseHello(newer, kindStream); err != nil {
		t.Errorf("a peer that also speaks later versions: %v", err)
	}
	for _, n := range []int{0, 1, 4, helloLen - 1} {
		if _, _, err := parseHello(b[:n], kindStream); err == nil {
			t.Errorf("%d bytes of a hello are accepted", n)
		}
	}
	if err := explainReject(rejectData(rejectVersion), kindStream); !errors.As(err, &version) {
		t.Errorf("a reject for the version: %v", err)
	}
	if err := explainReject(rejectData(rejectKind), kindStream); err == nil ||
		!strings.Contains(err.Error(), "ListenStream") {
		t.Errorf("a reject for the kind: %v", err)
	}
	if err := explainReject([]byte("something else"), kindStream); err != nil {
		t.Errorf("a reject of another program: %v", err)
	}
}

func TestFrames(t *testing.T) {
	var q queue[frame]
	next, want := int32(0), int32(0)
	for round := range 1000 {
		for range round % 7 {
			q.push(frame{n: next})
			next++
		}
		for range round % 5 {
			if q.len() == 0 {
				break
			}
			if f := q.pop(); f.n != want {
				t.Fatalf("frame %d, want %d", f.n, want)
			}
			want++
		}
		if q.len() != int(next-want) {
			t.Fatalf("%d frames, want %d", q.len(), next-want)
		}
		if q.len() > 0 && round%11 == 0 {
			if f := q.popLast(); f.n != next-1 {
				t.Fatalf("last frame %d, want %d", f.n, next-1)
			}
			next--
		}
	}
	if cap(q.list) > 2*int(next-want)+16 {
		t.Errorf("room for %d frames, with %d there", cap(q.list), next-want)
	}
}

func TestBadOptions(t *testing.T) {
	ctx := t.Context()
	var arg *ibv.ArgError
	var limit *ibv.LimitError
	for _, o := range []Options{{MaxMessage: -1}, {MaxMessage: 1 << 32}} {
		if _, err := Dial(ctx, "127.0.0.1:1", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := Listen(ctx, "127.0.0.1:1", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := DialStream(ctx, "127.0.0.1:1", &Options{PrivateData: make([]byte, 17)}); !errors.As(err, &limit) {
		t.Errorf("17 bytes of private data: %v", err)
	}
	for _, o := range []EngineOptions{{Block: 100}, {Block: 1000}, {Block: 2 << 20}, {Block: -1}, {Memory: 1},
		{MaxConns: -1}, {Pollers: -1}, {Pollers: 65}, {Pollers: 2, Manual: true}, {Pollers: 4, Memory: 15 << 20}} {
		if _, err := NewEngine("mlx5_0", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if !errors.Is(ErrClosed, net.ErrClosed) {
		t.Error("ErrClosed does not match net.ErrClosed")
	}
}

// TestLargeBudget lets large blocks take what was not promised to others.
func TestLargeBudget(t *testing.T) {
	all := &budget{most: 64 << 20, slab: slabSize}
	large := &budget{slab: largeSlab, from: all}
	all.promise(40 << 20)
	if !large.addBlocks(largeSlab) || large.addBlocks(largeSlab) {
		t.Error("with 40 of 64 MiB promised, want 8 for large blocks, and not 16")
	}
	if large.receivable(1) != 6<<20 || all.used() != largeSlab {
		t.Errorf("%d bytes may be promised, %d are used; want 3/4 of 8 MiB, and 8 MiB", large.receivable(1), all.used())
	}
	if !large.offer(6<<20) || large.offer(1) {
		t.Error("want 6 MiB to be promised, and no more")
	}
	large.dropBlocks(largeSlab)
	if all.used() != 0 || large.receivable(1) != 0 {
		t.Errorf("%d bytes are used after all, %d may be promised", all.used(), large.receivable(1))
	}
	all.promise(-40 << 20)
	if !large.addBlocks(largeSlab) || !all.addBlocks(56<<20) || large.addBlocks(largeSlab) {
		t.Error("want all of the memory to be used, and no more")
	}
}
