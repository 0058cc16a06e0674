package rdma

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// sender is a link that stages and does not send; its frames take up to most bytes.
func sender(most int) *link {
	e := &shard{opt: EngineOptions{Block: most}}
	l := &link{e: e, peer: wire.Hello{Block: uint32(most), Flags: wire.HelloPacks},
		q: sendq.New[held, owner](sendq.Options{Posts: 1})}
	l.own()
	return l
}

// staged makes a frame of a message in a block that is full of others' data.
func staged(l *link, p []byte, flags uint8, imm uint32) sendq.Frame[held] {
	b := &block{Mem: bytes.Repeat([]byte{0xa5}, l.e.opt.Block+headroom)}
	f := inBlock(b, copy(b.Payload(), p))
	f.Aux, f.Flags, f.Alone = uint32(len(p)), flags, true
	if flags&wire.FlagImm != 0 {
		f.Aux = imm
	}
	return f
}

// arrived is a shared frame when it has come, in another block.
func arrived(f *sendq.Frame[held]) frame {
	got := frame{b: &block{Mem: make([]byte, len(f.Mem))}, n: f.N, flags: f.Flags}
	copy(got.b.Payload(), f.Mem[headroom-wire.RecordLen:][:f.N])
	return got
}

// TestRecords packs random messages until a frame is full, and takes it apart again.
func TestRecords(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		most := 64 * (16 + rnd.IntN(100))
		l := sender(most)
		var want []outgoing
		for {
			m := outgoing{p: bytes.Repeat([]byte{byte(len(want)) | 0x80}, rnd.IntN(most/8)), imm: rnd.Uint32() | 1}
			m.n, m.flags = len(m.p), uint8(rnd.IntN(2)*wire.FlagImm)
			if len(want) == 0 {
				l.q.Stage(staged(l, m.p, m.flags, m.imm))
			} else if !l.wr.pack(&m) {
				break
			}
			want = append(want, m)
		}
		f, _ := l.q.DropStaged()
		if f.Flags != wire.FlagPacked || int(f.N) > most {
			t.Fatalf("seed %d: a frame of %d bytes with flags %#x; want at most %d, PACKED", seed, f.N, f.Flags, most)
		}
		got := arrived(&f)
		l.maxMessage = most
		rest := got.bytes()
		next, err := l.rd.split(got)
		for i := range want {
			w := &want[i]
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			m := next.handle()
			imm, has := m.Imm()
			if !bytes.Equal(m.Bytes(), w.p) || len(m.Blocks()) != 1 || m.Len() != w.n ||
				has != (w.flags == wire.FlagImm) || has && imm != w.imm || !has && imm != 0 {
				t.Fatalf("seed %d, message %d of %d: %d bytes, immediate %d %v; want %d bytes, %d, flags %#x", seed, i,
					len(want), m.Len(), imm, has, w.n, w.imm, w.flags)
			}
			if pad := rest[wire.RecordLen+w.n : wire.RecordSize(w.n)]; !bytes.Equal(pad, make([]byte, len(pad))) {
				t.Fatalf("seed %d: others' data behind a message: % x", seed, pad)
			}
			if rest = rest[wire.RecordSize(w.n):]; len(rest) > 0 {
				next = l.rd.unpack()
			}
		}
		if l.rd.current.b != nil || got.b.Holders.Load() != int32(len(want)) {
			t.Fatalf("seed %d: %d holders of %d messages, %d bytes left", seed, got.b.Holders.Load(), len(want),
				l.rd.current.n)
		}
	}
}

// TestPackNot adds messages to frames of connections that do not allow it; package sendq tests which frames do.
func TestPackNot(t *testing.T) {
	m := &outgoing{p: []byte("next"), n: 4}
	for name, do := range map[string]func(*link){
		"a peer that does not take it": func(l *link) { l.peer.Flags = wire.HelloLeases },
		"a peer with smaller blocks":   func(l *link) { l.peer.Block = 31 },
		"a closed connection":          func(l *link) { l.end.Close() },
		"an end that is to be sent":    func(l *link) { l.end.CloseWrite() },
	} {
		l := sender(1024)
		l.q.Stage(staged(l, []byte("first"), 0, 0))
		do(l)
		if l.wr.pack(m) {
			t.Errorf("%s: a message was added", name)
		}
	}
	l := sender(1024)
	l.q.Stage(staged(l, []byte("first"), 0, 0))
	if !l.wr.pack(m) {
		t.Error("a message that fits was not added")
	}
}

// FuzzRecords takes frames apart as a hostile peer may send them.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x80\x01\x00\x00\x00hello\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x09\x00\x00\x00\x00\x00\x00\x00too short"))
	f.Add([]byte("\xff\xff\xff\x7f\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00half a"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		const most = 512
		err := public(wire.CheckRecords(p, most))
		var bad *ProtocolError
		if err != nil {
			if !errors.As(err, &bad) {
				t.Errorf("%v, want a *ProtocolError", err)
			}
			return
		}
		l := sender(1024)
		b := &block{Mem: append(make([]byte, headroom), p...)}
		b.Holders.Store(1)
		l.rd.current = frame{b: b, n: int32(len(p)), flags: wire.FlagPacked}
		size := 0
		for l.rd.current.b != nil {
			m := l.rd.unpack().handle()
			if m.Len() > most || len(m.Bytes()) != m.Len() {
				t.Errorf("a message of %d bytes in %d", m.Len(), len(m.Bytes()))
			}
			size += wire.RecordSize(m.Len())
		}
		if size != len(p) {
			t.Errorf("records of %d bytes in a frame of %d", size, len(p))
		}
	})
}

// BenchmarkUnpack takes such frames apart.
func BenchmarkUnpack(b *testing.B) {
	l := sender(defaultBlock)
	m := &outgoing{p: make([]byte, 64), n: 64}
	l.q.Stage(staged(l, m.p, 0, 0))
	for l.wr.pack(m) {
	}
	packed, _ := l.q.DropStaged()
	f := arrived(&packed)
	l.maxMessage = defaultMaxMessage
	b.ReportAllocs()
	for b.Loop() {
		if l.rd.current.b == nil {
			got, err := l.rd.split(f)
			if err != nil {
				b.Fatal(err)
			}
			h := got.handle()
			h.get().recycle()
			continue
		}
		h := l.rd.unpack().handle()
		h.get().recycle()
	}
}
