package link

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// sender is a link that stages and does not send; its frames take up to most bytes.
func sender(most int) *Link {
	e := &Shard{Engine: new(Engine), Options: EngineOptions{Block: most}, Most: MostSmall}
	l := New(e, wire.Messages, Options{}, nil)
	l.Peer = wire.Hello{Block: uint32(most), Flags: wire.HelloPacks}
	return l
}

// staged makes a frame of a message in a block that is full of others' data.
func staged(l *Link, p []byte, flags uint8, imm uint32) sendq.Frame[Held] {
	b := &Block{Mem: bytes.Repeat([]byte{0xa5}, l.Shard.Options.Block+Headroom)}
	f := inBlock(b, copy(b.Payload(), p))
	f.Aux, f.Flags, f.Alone = uint32(len(p)), flags, true
	if flags&wire.FlagImm != 0 {
		f.Aux = imm
	}
	return f
}

// arrived is a shared frame when it has come, in another block.
func arrived(f *sendq.Frame[Held]) frame {
	got := frame{b: &Block{Mem: make([]byte, len(f.Mem))}, n: f.N, flags: f.Flags}
	copy(got.b.Payload(), f.Mem[Headroom-wire.RecordLen:][:f.N])
	return got
}

// TestRecords packs random messages until a frame is full, and takes it apart again.
func TestRecords(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		most := 64 * (16 + rnd.IntN(100))
		l := sender(most)
		var want []Outgoing
		for {
			m := Outgoing{P: bytes.Repeat([]byte{byte(len(want)) | 0x80}, rnd.IntN(most/8)), Imm: rnd.Uint32() | 1}
			m.N, m.Flags = len(m.P), uint8(rnd.IntN(2)*wire.FlagImm)
			if len(want) == 0 {
				l.Queue.Stage(staged(l, m.P, m.Flags, m.Imm))
			} else if !l.Writer.pack(&m) {
				break
			}
			want = append(want, m)
		}
		f, _ := l.Queue.DropStaged()
		if f.Flags != wire.FlagPacked || int(f.N) > most {
			t.Fatalf("seed %d: a frame of %d bytes with flags %#x; want at most %d, PACKED", seed, f.N, f.Flags, most)
		}
		got := arrived(&f)
		l.MaxMessage = most
		rest := got.Bytes()
		next, err := l.Reader.split(got)
		for i := range want {
			w := &want[i]
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			m := next
			imm, has := m.Imm, m.HasImm
			if !bytes.Equal(m.Bytes(), w.P) || len(m.Blocks()) != 1 || m.N != w.N ||
				has != (w.Flags == wire.FlagImm) || has && imm != w.Imm || !has && imm != 0 {
				t.Fatalf("seed %d, message %d of %d: %d bytes, immediate %d %v; want %d bytes, %d, flags %#x", seed, i,
					len(want), m.N, imm, has, w.N, w.Imm, w.Flags)
			}
			if pad := rest[wire.RecordLen+w.N : wire.RecordSize(w.N)]; !bytes.Equal(pad, make([]byte, len(pad))) {
				t.Fatalf("seed %d: others' data behind a message: % x", seed, pad)
			}
			if rest = rest[wire.RecordSize(w.N):]; len(rest) > 0 {
				next = l.Reader.unpack()
			}
		}
		if l.Reader.Current.b != nil || got.b.Holders.Load() != int32(len(want)) {
			t.Fatalf("seed %d: %d holders of %d messages, %d bytes left", seed, got.b.Holders.Load(), len(want),
				l.Reader.Current.n)
		}
	}
}

// TestPackNot adds messages to frames of connections that do not allow it; package sendq tests which frames do.
func TestPackNot(t *testing.T) {
	m := &Outgoing{P: []byte("next"), N: 4}
	for name, do := range map[string]func(*Link){
		"a peer that does not take it": func(l *Link) { l.Peer.Flags = wire.HelloLeases },
		"a peer with smaller blocks":   func(l *Link) { l.Peer.Block = 31 },
		"a closed connection":          func(l *Link) { l.End.Close() },
		"an end that is to be sent":    func(l *Link) { l.End.CloseWrite() },
	} {
		l := sender(1024)
		l.Queue.Stage(staged(l, []byte("first"), 0, 0))
		do(l)
		if l.Writer.pack(m) {
			t.Errorf("%s: a message was added", name)
		}
	}
	l := sender(1024)
	l.Queue.Stage(staged(l, []byte("first"), 0, 0))
	if !l.Writer.pack(m) {
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
		err := wire.CheckRecords(p, most)
		var bad *wire.Error
		if err != nil {
			if !errors.As(err, &bad) {
				t.Errorf("%v, want a *wire.Error", err)
			}
			return
		}
		l := sender(1024)
		b := &Block{Mem: append(make([]byte, Headroom), p...)}
		b.Holders.Store(1)
		l.Reader.Current = frame{b: b, n: int32(len(p)), flags: wire.FlagPacked}
		size := 0
		for l.Reader.Current.b != nil {
			m := l.Reader.unpack()
			if m.N > most || len(m.Bytes()) != m.N {
				t.Errorf("a message of %d bytes in %d", m.N, len(m.Bytes()))
			}
			size += wire.RecordSize(m.N)
		}
		if size != len(p) {
			t.Errorf("records of %d bytes in a frame of %d", size, len(p))
		}
	})
}

// BenchmarkUnpack takes such frames apart.
func BenchmarkUnpack(b *testing.B) {
	l := sender(DefaultBlock)
	m := &Outgoing{P: make([]byte, 64), N: 64}
	l.Queue.Stage(staged(l, m.P, 0, 0))
	for l.Writer.pack(m) {
	}
	packed, _ := l.Queue.DropStaged()
	f := arrived(&packed)
	l.MaxMessage = DefaultBlock
	b.ReportAllocs()
	for b.Loop() {
		if l.Reader.Current.b == nil {
			got, err := l.Reader.split(f)
			if err != nil {
				b.Fatal(err)
			}
			got.recycle()
			continue
		}
		l.Reader.unpack().recycle()
	}
}
